"""Repaired answers in Responses: what a chat says of an output, its response says, whole and in every chunking."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from core.dialects import DIALECTS
from core.dialects.responses import relay
from core.json import Json
from core.model import Model
from core.protocol.derender import parse_derender
from core.protocol.engine import GenerateChunk, GenerateResponse
from core.relay.answer import AnswerStream
from core.relay.whole import WholeAnswer
from tests.dialects import table
from tests.equality.cases import Models, cases, pairs
from tests.equality.outputs import Pair
from tests.reports.test_repaired import CASES, SIZES, Case
from tests.support.models import load

RESPONSES = next(dialect for dialect in DIALECTS if dialect.name == "responses")
# gpt-oss models write messages that say whom they are for: Responses of them are read as vLLM reads them. Completions
# of a format that the engine holds from the first token are a chat's: render tells no engine so for Responses.
ELSEWHERE = {"c21", "c21 behind reasoning", "i06"}
PLACES = {name: case for name, case in CASES.items() if name not in ELSEWHERE}


def request_of(chat: Json) -> Json:
    """A chat's request in the form of Responses."""
    asked: Json = {"model": "m", "input": "hi", "max_output_tokens": 900, "store": False}
    kept = ("chat_template_kwargs", "parallel_tool_calls", "include_reasoning")
    asked |= {name: chat[name] for name in kept if name in chat}
    if "tools" in chat:
        asked["tools"] = [{"type": "function", "strict": False, **tool["function"]} for tool in chat["tools"]]
        choice = chat.get("tool_choice", "auto")
        asked["tool_choice"] = choice if isinstance(choice, str) else {"type": "function", **choice["function"]}
    return asked


def said(items: list[Json]) -> tuple[str | None, str | None, list[tuple[str, str]]]:
    """The text, the reasoning and the calls of a response's items."""
    text = "".join(part["text"] for item in items if item["type"] == "message" for part in item["content"])
    thought = "".join(part["text"] for item in items if item["type"] == "reasoning" for part in item["content"] or ())
    calls = [(item["name"], item["arguments"]) for item in items if item["type"] == "function_call"]
    return text or None, thought or None, calls


@pytest.fixture(scope="module")
def load_model(models_dir: Path) -> Callable[..., Model]:
    loaded: dict[Any, Model] = {}

    def get(setup: tuple[str, ...], answers: str = "repaired") -> Model:
        folder, tools, reasoning = (*setup, "", "")[:3]
        if (setup, answers) not in loaded:
            parsers = {"tool_call_parser": tools or None, "reasoning_parser": reasoning or None}
            loaded[setup, answers] = load(
                models_dir / folder,
                served_names=("m",),
                enable_auto_tool_choice=bool(tools),
                answers=answers,
                **parsers,
            )
        return loaded[setup, answers]

    return get


def derendered(model: Model, case: Case, request: Json) -> Json:
    ids = model.tokenizer.encode(case.text, add_special_tokens=False)
    choice = {"index": 0, "token_ids": ids, "finish_reason": case.engine}
    body = {"generate_response": {"request_id": "r", "choices": [choice]}, "responses_request": request}
    body["prompt_token_ids"] = model.tokenizer.encode(case.prompt, add_special_tokens=False)
    return RESPONSES.derendering().derender(model, _parsed(body), lambda *_: None)


def _parsed(body: Json) -> Any:
    return parse_derender(json.dumps(body).encode(), *RESPONSES.derendering().bodies())


def chunks_of(model: Model, case: Case, size: int | None) -> list[Json]:
    ids = model.tokenizer.encode(case.text, add_special_tokens=False)
    step = size or len(ids)
    parts = [ids[place : place + step] for place in range(0, len(ids), step)]
    return [
        {
            "request_id": "r",
            "choices": [
                {"index": 0, "token_ids": part, "finish_reason": case.engine if number == len(parts) - 1 else None}
            ],
        }
        for number, part in enumerate(parts)
    ]


def streamed(model: Model, case: Case, request: Json, size: int | None) -> list[Json]:
    state, events = None, []
    prompt = model.tokenizer.encode(case.prompt, add_special_tokens=False)
    for chunk in chunks_of(model, case, size):
        body = {"stream": True, "generate_chunk": chunk, "stream_state": state, "prompt_token_ids": prompt}
        body["responses_request"] = request
        answer = RESPONSES.derendering().derender_stream(model, _parsed(body), lambda *_: None)
        state = answer["stream_state"]
        events += answer["events"]
    return events


def joined(events: list[Json]) -> tuple[str | None, str | None, list[tuple[str, str]]]:
    """What a client gathers of deltas, which the last event must say again."""
    text, thought, calls = "", "", []
    for event in events:
        if event["type"] == "response.output_text.delta":
            text += event["delta"]
        elif event["type"].startswith("response.reasoning") and event["type"].endswith(".delta"):
            thought += event["delta"]
        elif event["type"] == "response.output_item.added" and event["item"]["type"] == "function_call":
            calls.append([event["item"]["name"], ""])
        elif event["type"] == "response.function_call_arguments.delta":
            calls[-1][1] += event["delta"]
    return text or None, thought or None, [(name, arguments) for name, arguments in calls]


@pytest.mark.parametrize("name", PLACES)
def test_a_response_says_what_the_chat_says(load_model: Callable[..., Model], name: str) -> None:
    case = PLACES[name]
    model, request = load_model(case.setup), request_of(case.request)
    whole = derendered(model, case, request)
    content, reasoning, calls = said(whole["output"])
    expected = (case.content, case.reasoning, list(case.calls))
    assert (content, reasoning, [(called, json.loads(text)) for called, text in calls]) == expected
    assert whole["status"] == ("incomplete" if case.engine == "length" else "completed")
    for size in SIZES:
        events = streamed(model, case, request, size)
        assert said(events[-1]["response"]["output"]) == (content, reasoning, calls), size
        assert joined(events) == (content, reasoning, calls), size
        counts = events[-1]["response"]["usage"]["output_tokens_details"]["reasoning_tokens"]
        assert counts == whole["usage"]["output_tokens_details"]["reasoning_tokens"], size


@pytest.mark.parametrize("name", ["c04 a", "i16 0", "i26", "fault 6, arguments first"])
@pytest.mark.parametrize(("answers", "repairs"), [("auto", True), ("vllm", False)])
def test_the_relay_repairs_unless_it_is_told_not_to(
    load_model: Callable[..., Model], name: str, answers: str, repairs: bool
) -> None:
    case = PLACES[name]
    model, request = load_model(case.setup, answers), request_of(case.request)
    ids = model.tokenizer.encode(case.text, add_special_tokens=False)
    opened = relay.open_request(model, {**request, "stream": True})
    stream = AnswerStream(opened, relay.writer(opened), lambda *_: None)
    events: list[Json] = []
    for chunk in chunks_of(model, case, None):
        events += stream.advance(0, GenerateChunk.model_validate(chunk))
    whole = WholeAnswer(relay.open_request(model, request), relay.answer, lambda *_: None)
    response = {"choices": [{"index": 0, "token_ids": ids, "finish_reason": case.engine}]}
    whole.add_response(0, GenerateResponse.model_validate(response))
    found, told = said(whole.end()["output"])[2], joined(events)[2]
    if repairs:
        assert [(called, json.loads(text)) for called, text in found] == list(case.calls)
        assert told == found
    else:
        assert told != found or [(called, json.loads(text)) for called, text in found] != list(case.calls)


# The first four know tools in the form of a chat's only.
PARSERS: tuple[Pair, ...] = (
    ("step3", "step3"),
    ("hy_v3", "hy_v3"),
    ("internlm", None),
    ("minicpm5", None),
    ("hermes", "qwen3"),
    ("qwen3_coder", "qwen3"),
    ("deepseek_v31", "deepseek_v3"),
    ("llama3_json", None),
    ("kimi_k2", "kimi_k2"),
    ("poolside_v1", "poolside_v1"),
    (None, "granite"),
)


@pytest.mark.parametrize("pair", PARSERS, ids=lambda pair: "+".join(filter(None, pair)))
def test_an_output_is_one_answer_in_every_dialect(models_dir: Path, tmp_path: Path, pair: Pair) -> None:
    folder = dict(pairs())[pair]
    model = Models(models_dir, tmp_path).deployment(pair, folder, answers="repaired")
    compared = 0
    for case in islice(cases(model, pair, folder), 0, None, 3):
        if not case.request.keys() <= table.KNOWN:
            continue
        compared += 1
        chat = table.CHAT.one_shot(model, case).said
        for way in (table.MESSAGES, table.RESPONSES):
            assert not table.kinds_of(chat, way.one_shot(model, case).said), (case.name, way)
            for chunking in table.CHUNKINGS:
                assert not table.kinds_of(chat, way.streamed(model, case, chunking).said), (case.name, way, chunking)
    assert compared > 1
