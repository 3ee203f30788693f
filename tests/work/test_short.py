"""What is done on the event loop is short by its size; what may not be says so before it is done."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.bundle.folder import FolderFiles
from core.derender.stream import derender_chat_stream
from core.dialects.chat import derender, render
from core.errors import LongWork
from core.model import Model, load_model
from core.options import SHORT_BYTES, ModelOptions
from core.parsing.budget import ParserBudget
from core.protocol.derender import DerenderChatRequest, DerenderChatStreamRequest
from core.state.context import Context, pack_context

CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture(scope="module")
def model(models_dir: Path) -> Model:
    options = ModelOptions(
        served_names=("m",),
        tool_call_parser="hermes",
        reasoning_parser="qwen3",
        enable_auto_tool_choice=True,
        trust_request_chat_template=True,
        stream_state="replay",
    )
    return load_model(FolderFiles(models_dir / "qwen3"), options)


def stream(model: Model, **fields: Any) -> Any:
    body = {"stream": True, "chat_request": {**CHAT, "stream": True}, "prompt_token_ids": [1], **fields}
    return derender_chat_stream(model, DerenderChatStreamRequest.model_validate(body))


def chunk(ids: list[int]) -> dict[str, Any]:
    return {"request_id": "r", "choices": [{"index": 0, "token_ids": ids}]}


def test_the_short_model_answers_as_the_other(model: Model) -> None:
    assert model.short is model.short
    state = None
    for ids in ([9707], [11, 1879], [0]):
        given = {"generate_chunk": chunk(ids), "stream_state": state}
        assert stream(model.short, **given) | {"chunk": {}} == stream(model, **given) | {"chunk": {}}
        state = stream(model.short, **given)["stream_state"]
    written = render.render(model.short, CHAT, "id")
    assert written == render.render(model, CHAT, "id")


def test_a_whole_output_for_a_parser_is_long(model: Model) -> None:
    """Some parsers' regular expressions take a second for thirty characters."""
    body = {"generate_response": {"request_id": "r", "choices": [{"index": 0, "token_ids": [1]}]}, "chat_request": CHAT}
    request = DerenderChatRequest.model_validate(body)
    derender.derender(model, request)
    with pytest.raises(LongWork):
        derender.derender(model.short, request)


@pytest.mark.parametrize("seconds", [0, 10.0])
def test_steps_are_long_when_their_time_is_up(seconds: float) -> None:
    ticks = iter(range(1000))
    budget = ParserBudget(seconds, clock=lambda: next(ticks) * 0.001, short=True)

    def steps() -> None:
        while True:
            budget.check()

    with pytest.raises(LongWork):
        steps()
    assert next(ticks) < 30


@pytest.mark.parametrize("size", [SHORT_BYTES, SHORT_BYTES + 1])
def test_what_a_context_expands_to_is_bounded(model: Model, size: int) -> None:
    """A context of zeros takes a thousandth of its size in a body."""
    request: dict[str, Any] = {**CHAT, "structured_outputs": {"regex": ""}}
    padding = size - len(json.dumps({"m": "m", "r": request}, separators=(",", ":")))
    request["structured_outputs"] = {"regex": "0" * padding}
    packed = pack_context(Context("m", None, None, request))
    assert len(packed) < size / 20
    body = {"generate_chunk": chunk([9707]), "stream_state": {"context": packed}, "chat_request": None}
    stream(model, **body)
    if size > SHORT_BYTES:
        with pytest.raises(LongWork):
            stream(model.short, **body)
    else:
        stream(model.short, **body)


def test_what_a_checkpoint_expands_to_is_bounded(models_dir: Path) -> None:
    """A parser that keeps its text reads all of it again with the next token."""
    options = ModelOptions(served_names=("m",), tool_call_parser="llama3_json", enable_auto_tool_choice=True)
    model = load_model(FolderFiles(models_dir / "llama3"), options)
    asked = {**CHAT, "stream": True, "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]}
    begun = chunk(model.tokenizer.encode('{"name": "f", "parameters": {"a": [1'))
    state = stream(model, generate_chunk=begun, chat_request=asked)["stream_state"]
    one = {"generate_chunk": chunk(model.tokenizer.encode(", 1")), "chat_request": asked}
    assert stream(model.short, **one, stream_state=state)
    more = chunk(model.tokenizer.encode(", 1" * 8000))
    state = stream(model, generate_chunk=more, chat_request=asked, stream_state=state)["stream_state"]
    assert len(json.dumps(state)) < SHORT_BYTES / 10
    stream(model, **one, stream_state=state)
    with pytest.raises(LongWork):
        stream(model.short, **one, stream_state=state)


@pytest.mark.parametrize("where", [{"chat_template": "x"}, {"chat_template_kwargs": {"chat_template": "x"}}])
def test_a_template_of_a_client_is_long(model: Model, where: dict[str, Any]) -> None:
    render.render(model, {**CHAT, **where}, "id")
    with pytest.raises(LongWork):
        render.render(model.short, {**CHAT, **where}, "id")
