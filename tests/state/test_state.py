"""The stream state in the client's hands: signed, bound to its stream, and hostile until checked."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.derender.stream import derender_chat_stream, derender_completion_stream
from core.errors import ConfigurationError, InvalidState, RequestError
from core.model import Model
from core.protocol.derender import DerenderChatStreamRequest, DerenderCompletionStreamRequest
from core.state.context import Context, pack_context, reduce_chat, unpack_context
from core.state.signature import StateSigner
from tests.support.models import load

KEY, OTHER = "k" * 32, "o" * 32
Json = dict[str, Any]
IDS = [9707, 11, 1879, 0, 220, 16, 17]


@pytest.fixture(scope="session")
def plain(models_dir: Path) -> Callable[..., Model]:
    def make(*keys: str, required: bool = True) -> Model:
        return load(models_dir / "qwen3", state_keys=keys, state_signature_required=required)

    return make


def chunk(ids: list[int], index: int = 0, request_id: str = "r", finish: str | None = None) -> Json:
    return {"request_id": request_id, "choices": [{"index": index, "token_ids": ids, "finish_reason": finish}]}


def chat(model: Model, /, **fields: Any) -> Json:
    return derender_chat_stream(model, DerenderChatStreamRequest.model_validate({"stream": True, **fields}))


def test_a_signed_stream_goes_through(plain: Callable[..., Model]) -> None:
    model, state, text = plain(KEY), None, ""
    for token_id in IDS:
        answer = chat(model, generate_chunk=chunk([token_id]), stream_state=json.loads(json.dumps(state)))
        state = answer["stream_state"]
        text += answer["chunk"]["choices"][0]["delta"]["content"] or ""
    assert text == "Hello, world! 12"


def test_every_altered_field_is_found(plain: Callable[..., Model]) -> None:
    model = plain(KEY)
    state = chat(model, generate_chunk=chunk(IDS[:3]), carry_context=True)["stream_state"]
    changes: Json = {
        "prev_tokens": ["x"], "prefix_offset": 1, "read_offset": 0, "role_sent": False,
        "logprob_context_token_ids": [5], "logprob_text_offset": 4, "tools_streamed": True,
        "last_tool_call_ids": ["a"], "index": 1, "request_id": "other", "config": "0" * 16, "checkpoint": "x",
        "context": pack_context(Context(model="qwen3")), "signature": "AAAA",
    }  # fmt: skip
    for name, value in changes.items():
        altered = {**copy.deepcopy(state), name: value}
        with pytest.raises(InvalidState, match="signature"):
            chat(model, generate_chunk=chunk(IDS[3:4], altered["index"] or 0), stream_state=altered)


def test_unsigned_states_are_refused_or_accepted_by_setting(plain: Callable[..., Model]) -> None:
    unsigned = chat(plain(), generate_chunk=chunk(IDS[:2]))["stream_state"]
    assert "signature" not in unsigned
    with pytest.raises(InvalidState, match="signature is missing"):
        chat(plain(KEY), generate_chunk=chunk(IDS[2:]), stream_state=unsigned)
    assert chat(plain(KEY, required=False), generate_chunk=chunk(IDS[2:]), stream_state=unsigned)["stream_state"][
        "signature"
    ]
    wrong = {**unsigned, "signature": "x"}
    with pytest.raises(InvalidState, match="does not match"):
        chat(plain(KEY, required=False), generate_chunk=chunk(IDS[2:]), stream_state=wrong)


def test_a_key_can_be_replaced_while_streams_are_in_flight(plain: Callable[..., Model]) -> None:
    old = chat(plain(KEY), generate_chunk=chunk(IDS[:2]))["stream_state"]
    new = chat(plain(OTHER, KEY), generate_chunk=chunk(IDS[2:4]), stream_state=old)["stream_state"]
    assert chat(plain(OTHER), generate_chunk=chunk(IDS[4:]), stream_state=new)["chunk"]
    with pytest.raises(InvalidState, match="another key"):
        chat(plain(KEY), generate_chunk=chunk(IDS[4:]), stream_state=new)


def test_short_keys_stop_the_start() -> None:
    with pytest.raises(ConfigurationError, match="state_key"):
        StateSigner(["short"])


@pytest.mark.parametrize(("change", "field"), [({"index": 1}, "index"), ({"request_id": "q"}, "request_id")])
def test_a_chunk_of_another_stream_is_refused_by_name(plain: Callable[..., Model], change: Json, field: str) -> None:
    model = plain()
    state = chat(model, generate_chunk=chunk(IDS[:1]))["stream_state"]
    with pytest.raises(InvalidState, match=field) as caught:
        chat(model, generate_chunk=chunk(IDS[1:2], **change), stream_state=state)
    assert caught.value.param == f"stream_state.{field}"


def test_choices_of_one_stream_have_their_own_states(plain: Callable[..., Model]) -> None:
    model = plain()
    states: dict[int, Json] = {}
    texts = {0: "", 1: ""}
    for token_id in IDS:
        for index in (0, 1):
            answer = chat(model, generate_chunk=chunk([token_id], index), stream_state=states.get(index))
            states[index] = answer["stream_state"]
            texts[index] += answer["chunk"]["choices"][0]["delta"]["content"] or ""
    assert texts[0] == texts[1] == "Hello, world! 12"
    usage = {"request_id": "r", "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}}
    assert chat(model, generate_chunk=usage, stream_state=states[1])["chunk"]["usage"]["total_tokens"] == 3


def test_an_engine_without_request_ids_still_gives_one_id_to_a_stream(plain: Callable[..., Model]) -> None:
    model = plain()
    first = chat(model, generate_chunk={"choices": [{"index": 0, "token_ids": IDS[:1]}]})
    second = chat(
        model, generate_chunk={"choices": [{"index": 0, "token_ids": IDS[1:]}]}, stream_state=first["stream_state"]
    )
    assert first["chunk"]["id"] == second["chunk"]["id"]


def test_several_chunks_in_one_call_answer_as_single_calls(plain: Callable[..., Model]) -> None:
    model = plain(KEY)
    chunks = [chunk([i]) for i in IDS] + [chunk([], finish="length")]
    chunks.append({"request_id": "r", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 7}})
    state, single = None, []
    for one in chunks:
        answer = chat(model, generate_chunk=one, stream_state=state)
        state = answer["stream_state"]
        single.append({**answer["chunk"], "created": 0})
    many = chat(model, generate_chunks=chunks)
    assert [{**c, "created": 0} for c in many["chunks"]] == single
    assert many["stream_state"] == state


@pytest.mark.parametrize(
    "fields",
    [{}, {"generate_chunk": chunk([1]), "generate_chunks": [chunk([1])]}, {"generate_chunks": []},
     {"generate_chunks": [chunk([1])] * 4097}],
)  # fmt: skip
def test_exactly_one_form_of_chunks(fields: Json) -> None:
    with pytest.raises(ValueError, match=r"generate_chunk|List should have"):
        DerenderChatStreamRequest.model_validate({"stream": True, **fields})


def test_a_carried_context_stands_in_for_the_request(plain: Callable[..., Model]) -> None:
    model = plain()
    request = {"model": "qwen3", "messages": [{"role": "user", "content": "secret"}], "return_token_ids": True}
    full, short = None, None
    for number, token_id in enumerate(IDS):
        common = {"model": "qwen3", "chat_request": request, "prompt_tokens": 9, "prompt_token_ids": [1, 2, 3]}
        one = {**chunk([token_id]), "usage": {"prompt_tokens": 1, "completion_tokens": number + 1}}
        whole = chat(model, **common, generate_chunk=one, stream_state=full)
        first = {**common, "carry_context": True} if number == 0 else {}
        carried = chat(model, **first, generate_chunk=one, stream_state=short)
        full, short = whole["stream_state"], carried["stream_state"]
        assert {**whole["chunk"], "created": 0} == {**carried["chunk"], "created": 0}
    assert whole["chunk"]["usage"]["prompt_tokens"] == 9
    assert "context" not in full


def test_a_context_keeps_nothing_of_the_conversation() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": "secret"}'}}
    request = {
        "messages": [
            {"role": "user", "content": "secret"},
            {"role": "assistant", "content": "secret", "tool_calls": [call, call]},
            {"role": "tool", "content": "secret", "tool_call_id": "c"},
        ],
        "tools": [{"type": "function", "function": {"name": "f"}}],
        "user": "secret",
    }
    kept = reduce_chat(request)
    assert kept is not None
    assert "secret" not in json.dumps(kept)
    assert [len(m["tool_calls"]) for m in kept["messages"]] == [2]
    assert unpack_context(pack_context(Context("m", 3, None, kept))) == Context("m", 3, None, kept)


def test_hostile_contexts_are_refused_within_bounds() -> None:
    good = pack_context(Context("m", 3, [1, 2], {"tools": []}))
    rng = random.Random(7)
    for _ in range(3000):
        text = list(good)
        for _ in range(rng.randint(1, 4)):
            text[rng.randrange(len(text))] = chr(rng.randrange(32, 127))
        try:
            unpack_context("".join(text[: rng.randint(1, len(text))] if rng.random() < 0.3 else text))
        except InvalidState:
            continue
    import base64
    import zlib

    bomb = base64.urlsafe_b64encode(zlib.compress(b'{"m":"' + b"a" * 50_000_000 + b'"}', 9)).decode()
    with pytest.raises(InvalidState, match="damaged or too large"):
        unpack_context(bomb)
    for parts in (b"[]", b'{"m":1}', b'{"n":"x"}', b'{"p":[-1]}', b'{"p":[1.5]}', b'{"r":[]}', b"7"):
        with pytest.raises(InvalidState, match="context"):
            unpack_context(base64.urlsafe_b64encode(zlib.compress(parts)).decode())


def test_a_state_of_vllm_is_continued(plain: Callable[..., Model]) -> None:
    state = {"prev_tokens": ["Hello"], "prefix_offset": 0, "read_offset": 1, "role_sent": True}
    answer = chat(plain(), generate_chunk=chunk(IDS[1:]), stream_state=state)
    assert answer["chunk"]["choices"][0]["delta"] == {"role": None, "content": ", world! 12", "reasoning": None}


def test_completions_carry_their_text_offset(plain: Callable[..., Model]) -> None:
    model, state, offsets = plain(), None, []
    for token_id in IDS:
        one = chunk([token_id])
        one["choices"][0]["logprobs"] = {"content": [{"token_id": token_id, "logprob": -1}]}
        body = {"stream": True, "generate_chunk": one, "stream_state": state}
        answer = derender_completion_stream(model, DerenderCompletionStreamRequest.model_validate(body))
        state = answer["stream_state"]
        offsets += answer["chunk"]["choices"][0]["logprobs"]["text_offset"]
    assert offsets == [0, 5, 6, 12, 13, 14, 15]


def test_mutated_plain_states_never_break_anything(plain: Callable[..., Model]) -> None:
    model = plain()
    good = chat(model, generate_chunk=chunk(IDS[:3]), carry_context=True)["stream_state"]
    rng = random.Random(11)
    values: list[Any] = [None, True, -1, 0, 7, 2**40, 1e400, "", "x" * 5000, [], [1], ["a"], [None], {}, {"a": 1}]
    refused = 0
    for _ in range(3000):
        state = copy.deepcopy(good)
        for _ in range(rng.randint(1, 3)):
            state[rng.choice([*good, "output_token_ids", "output_chunk_lens", "new"])] = rng.choice(values)
        try:
            chat(model, generate_chunk=chunk(IDS[3:4]), stream_state=state)
        except (RequestError, ValueError):
            refused += 1
    assert refused > 500


@pytest.mark.parametrize("odd", [2**70, -(2**70), "\ud800"])
def test_what_orjson_refuses_is_carried_all_the_same(plain: Callable[..., Model], odd: Any) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"maximum": odd}}}
    request = {"model": "qwen3", "messages": [], "tools": [tool]}
    state = None
    for token_id in IDS:
        first = {"chat_request": request, "carry_context": True} if state is None else {}
        state = chat(plain(KEY), **first, generate_chunk=chunk([token_id]), stream_state=state)["stream_state"]
    assert unpack_context(state["context"]).request == {"tools": [tool], "messages": []}
