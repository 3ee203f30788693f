"""Streams through a parser: whole, chunk by chunk, several chunks a call, with a carried context, in both modes."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.derender.stream import derender_chat_stream
from core.errors import BadRequest, InvalidState
from core.model import Model
from core.protocol.derender import DerenderChatStreamRequest
from core.tokenizer import Tokenizer
from tests.support.models import load

Json = dict[str, Any]
KEY = "k" * 32
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}
TEXT = '<think>\nParis, 漢字?\n</think>\n\nLet me look.\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
REQUEST: Json = {"model": "m", "messages": [{"role": "user", "content": "Weather?"}], "tools": [TOOL]}
PROMPT = [151644, 872, 198, 6023, 151645, 198, 151644, 77091, 198]


@pytest.fixture(scope="session")
def parsed(models_dir: Path) -> Callable[..., Model]:
    def make(stream_state: str = "checkpoint", **changes: Any) -> Model:
        options = {
            "tool_call_parser": "hermes", "reasoning_parser": "qwen3", "enable_auto_tool_choice": True, "state_keys": (KEY,),
            **changes,
        }  # fmt: skip
        return load(models_dir / "qwen3", served_names=("m",), stream_state=stream_state, **options)

    return make


@pytest.fixture(scope="session")
def chunks(tokenizer_of: Callable[[str], Tokenizer]) -> list[Json]:
    ids = tokenizer_of("qwen3").encode(TEXT, add_special_tokens=False)
    made = [{"request_id": "r", "choices": [{"index": 0, "token_ids": [i]}]} for i in ids]
    made.append({"request_id": "r", "choices": [{"index": 0, "token_ids": [], "finish_reason": "stop"}]})
    made.append({"request_id": "r", "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": len(ids)}})
    return made


def call(model: Model, /, **fields: Any) -> Json:
    body = json.loads(json.dumps({"stream": True, **fields}))
    return derender_chat_stream(model, DerenderChatStreamRequest.model_validate(body))


def clean(chunk: Json, ids: dict[str, str]) -> Json:
    """A chunk without its time, its random tool-call ids numbered."""
    chunk = json.loads(json.dumps({**chunk, "created": 0}))
    for choice in chunk["choices"]:
        for tool_call in choice["delta"].get("tool_calls", []):
            if tool_call["id"] is not None:
                tool_call["id"] = ids.setdefault(tool_call["id"], f"call-{len(ids)}")
    return chunk


def full_context(number: int) -> Json:
    return {"chat_request": REQUEST, "prompt_token_ids": PROMPT, "prompt_tokens": len(PROMPT), "model": "m"}


def run(model: Model, chunks: list[Json], context: Callable[[int], Json] = full_context) -> tuple[list[Json], Json]:
    state, answers, ids = None, [], {}
    for number, one in enumerate(chunks):
        answer = call(model, generate_chunk=one, stream_state=state, **context(number))
        state = answer["stream_state"]
        answers.append(clean(answer["chunk"], ids))
    assert state is not None
    return answers, state


def test_both_modes_answer_alike(parsed: Callable[..., Model], chunks: list[Json]) -> None:
    checkpointed, state = run(parsed(), chunks)
    replayed, replay_state = run(parsed("replay"), chunks)
    assert checkpointed == replayed
    assert "output_token_ids" not in state
    assert "checkpoint" not in replay_state
    assert len(replay_state["output_token_ids"]) == len(chunks) - 2
    deltas = [choice["delta"] for chunk in checkpointed for choice in chunk["choices"]]
    assert "".join(d["reasoning"] or "" for d in deltas).strip() == "Paris, 漢字?"
    assert checkpointed[-2]["choices"][0]["finish_reason"] == "tool_calls"
    assert checkpointed[-1]["usage"]["prompt_tokens"] == len(PROMPT)


@pytest.mark.parametrize("mode", ["checkpoint", "replay"])
def test_a_carried_context_stands_in_for_request_and_prompt(
    parsed: Callable[..., Model], chunks: list[Json], mode: str
) -> None:
    model = parsed(mode)
    expected, _ = run(model, chunks)
    carried, _ = run(model, chunks, lambda n: {**full_context(n), "carry_context": True} if n == 0 else {})
    assert carried == expected


def test_after_the_first_chunk_prompt_ids_are_never_needed_and_ignored(
    parsed: Callable[..., Model], chunks: list[Json]
) -> None:
    model = parsed()
    expected, _ = run(model, chunks)
    without = {k: v for k, v in full_context(1).items() if k != "prompt_token_ids"}
    assert run(model, chunks, lambda n: without if n else full_context(n))[0] == expected
    assert (
        run(model, chunks, lambda n: {**without, "prompt_token_ids": [151668] * 4} if n else full_context(n))[0]
        == expected
    )


def test_without_prompt_ids_a_replayed_stream_is_refused(parsed: Callable[..., Model], chunks: list[Json]) -> None:
    model = parsed("replay")
    state = call(model, generate_chunk=chunks[0], **full_context(0))["stream_state"]
    with pytest.raises(BadRequest, match="prompt_token_ids is required"):
        call(model, generate_chunk=chunks[1], stream_state=state, chat_request=REQUEST)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("mode", ["checkpoint", "replay"])
def test_several_chunks_in_one_call(parsed: Callable[..., Model], chunks: list[Json], mode: str, seed: int) -> None:
    model, rng = parsed(mode), random.Random(seed)
    expected, _ = run(model, chunks)
    state, answers, ids, at = None, [], {}, 0
    while at < len(chunks):
        size = rng.randint(1, 9)
        answer = call(model, generate_chunks=chunks[at : at + size], stream_state=state, **full_context(at))
        state, at = answer["stream_state"], at + size
        answers += [clean(chunk, ids) for chunk in answer["chunks"]]
    assert answers == expected


@pytest.mark.parametrize("cut", [1, 9, 20, 30])
def test_a_stream_moves_from_vllm_and_between_modes(parsed: Callable[..., Model], chunks: list[Json], cut: int) -> None:
    model = parsed(state_keys=())
    expected, _ = run(model, chunks)
    ids = [i for chunk in chunks[:cut] for i in chunk["choices"][0]["token_ids"]]
    # What vLLM's own server would have returned: no field of ours.
    tool_ids = ["chatcmpl-tool-x"] if any("tool_calls" in c["choices"][0]["delta"] for c in expected[:cut]) else []
    state: Json | None = {
        "output_token_ids": ids, "output_chunk_lens": [1] * len(ids), "role_sent": True,
        "last_tool_call_ids": tool_ids, "tools_streamed": bool(tool_ids),
    }  # fmt: skip
    names = {"chatcmpl-tool-x": "call-0"} if tool_ids else {}
    answers = []
    for one in chunks[cut:]:
        answer = call(model, generate_chunk=one, stream_state=state, **full_context(1))
        state = answer["stream_state"]
        assert "checkpoint" in state
        answers.append(clean(answer["chunk"], names))
    assert answers == expected[cut:]


@pytest.mark.parametrize(
    "change",
    [
        {"tools": []},
        {"tools": [{"type": "function", "function": {"name": "other"}}]},
        {"tool_choice": "none"},
        {"chat_template_kwargs": {"enable_thinking": False}},
    ],
)
def test_another_configuration_is_refused_by_name(
    parsed: Callable[..., Model], chunks: list[Json], change: Json
) -> None:
    model = parsed()
    state = call(model, generate_chunk=chunks[0], **full_context(0))["stream_state"]
    request = {**REQUEST, **change}
    if not request["tools"]:
        del request["tools"]
    with pytest.raises(InvalidState, match="config"):
        call(model, generate_chunk=chunks[1], stream_state=state, chat_request=request)


def test_another_deployment_is_refused_by_name(parsed: Callable[..., Model], chunks: list[Json]) -> None:
    state = call(parsed(), generate_chunk=chunks[0], **full_context(0))["stream_state"]
    for other in (
        parsed(reasoning_parser="deepseek_r1"),
        parsed(default_chat_template_kwargs={"enable_thinking": False}),
    ):
        with pytest.raises(InvalidState, match="config") as caught:
            call(other, generate_chunk=chunks[1], stream_state=state, **full_context(1))
        assert caught.value.param == "stream_state.config"


def test_a_checkpointed_stream_stays_within_the_context_length(
    parsed: Callable[..., Model], chunks: list[Json]
) -> None:
    model = parsed(max_model_len=len(PROMPT) + 3)
    state = None
    for one in chunks[:3]:
        state = call(model, generate_chunk=one, stream_state=state, **full_context(0))["stream_state"]
    with pytest.raises(BadRequest, match="exceeds max_model_len"):
        call(model, generate_chunk=chunks[3], stream_state=state, **full_context(0))


def test_logprobs_are_repaired_across_checkpointed_chunks(
    parsed: Callable[..., Model], tokenizer_of: Callable[[str], Tokenizer]
) -> None:
    model = parsed()
    ids = tokenizer_of("qwen3").encode("<think>\n🫠 ok", add_special_tokens=False)
    request = {**REQUEST, "logprobs": True}
    state, texts = None, []
    for token_id in ids:
        choice = {"index": 0, "token_ids": [token_id], "logprobs": {"content": [{"token_id": token_id, "logprob": -1}]}}
        answer = call(
            model,
            generate_chunk={"request_id": "r", "choices": [choice]},
            stream_state=state,
            chat_request=request,
            prompt_token_ids=PROMPT,
        )
        state = answer["stream_state"]
        texts.append(answer["chunk"]["choices"][0]["logprobs"]["content"][0]["token"])
    assert "".join(texts) == "<think>\n🫠 ok"
