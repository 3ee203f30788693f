"""A choice's stream and its carrying: one way through the modules, and nothing that reads changes anything."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from core.bundle.folder import FolderFiles
from core.choice.output import ChoiceOutput
from core.choice.reader import OutputReader
from core.choice.text import TextStream, read_text
from core.derender.chunks import ChatChunkWriter, CompletionChunkWriter, StreamHeader
from core.derender.stream import derender_chat_stream, derender_completion_stream
from core.json import Json
from core.model import Model, load_model
from core.options import ModelOptions
from core.parsing.known_request import known_chat
from core.protocol.derender import DerenderChatStreamRequest, DerenderCompletionStreamRequest
from core.protocol.engine import Choice, GenerateChunk, StreamChoice
from core.protocol.output_options import NO_REQUEST
from core.state.binding import bind
from core.state.call import open_call
from core.state.carried import CarriedStream
from core.state.carried_parsed import open_parsed
from core.state.carried_text import open_text
from core.state.context import reduce_chat

ROOT = Path(__file__).parents[2]
TEXT = "<think>\nHm, 漢字.\n</think>\n\nHello, world!"
REQUEST: Json = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
PROMPT = [151644, 872, 198, 6023, 151645, 198, 151644, 77091, 198]


@pytest.fixture(scope="session")
def load(models_dir: Path) -> Callable[..., Model]:
    def load(**options: Any) -> Model:
        return load_model(FolderFiles(models_dir / "qwen3"), ModelOptions(("m",), **options))

    return load


def body_of(ids: list[int], **fields: Any) -> DerenderChatStreamRequest:
    chunk = {"choices": [{"index": 2, "token_ids": ids}]}
    known = {"chat_request": REQUEST, "prompt_token_ids": PROMPT, "carry_context": True}
    return DerenderChatStreamRequest.model_validate({"stream": True, "generate_chunk": chunk, **known, **fields})


def opened(model: Model, body: DerenderChatStreamRequest) -> CarriedStream:
    call = open_call(model, body, body.chat_request, reduce_chat)
    parser = model.chat_parser
    if parser is None:
        return open_text(OutputReader(model, NO_REQUEST), call, model.text_config("chat"), is_chat=True)
    known = known_chat(parser, REQUEST)
    reader = OutputReader(model, known.options, parsed=True)
    return open_parsed(model, parser, known, reader, call)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"reasoning_parser": "qwen3"},
        {"reasoning_parser": "qwen3", "stream_state": "replay"},
    ],
    ids=["plain", "checkpoint", "replay"],
)
def test_saving_a_stream_changes_nothing(load: Callable[..., Model], options: Json) -> None:
    model = load(**options)
    ids = model.tokenizer.encode(TEXT, add_special_tokens=False)
    once, often = opened(model, body_of(ids[:2])), opened(model, body_of(ids[:2]))
    for token_id in ids:
        chunk = StreamChoice(index=2, token_ids=[token_id])
        expected = once.advance(chunk)
        first = often.save({"role_sent": True})
        assert often.save({"role_sent": True}) == first
        output = often.advance(chunk)
        assert (output.content, output.reasoning) == (expected.content, expected.reasoning)
    assert often.save({"role_sent": True}) == once.save({"role_sent": True})


def test_a_call_leaves_its_body_as_it_was(load: Callable[..., Model]) -> None:
    for model in (load(), load(reasoning_parser="qwen3"), load(reasoning_parser="qwen3", stream_state="replay")):
        ids = model.tokenizer.encode(TEXT, add_special_tokens=False)
        state = derender_chat_stream(model, body_of(ids[:4]))["stream_state"]
        body = body_of(ids[4:6], stream_state=state)
        before = body.model_dump()
        first = derender_chat_stream(model, body)
        assert body.model_dump() == before
        second = derender_chat_stream(model, body)
        assert {**first["chunk"], "created": 0} == {**second["chunk"], "created": 0}
        assert first["stream_state"] == second["stream_state"]


def test_binding_a_call_changes_nothing(load: Callable[..., Model]) -> None:
    model = load()
    body = body_of([9707])
    call = open_call(model, body, body.chat_request, reduce_chat)
    first, second = (bind(call, model.limits, is_chat=True) for _ in range(2))
    assert first.choice_index == second.choice_index == 2
    # Each draws an id: nothing was remembered, in the call or in its chunks.
    assert first.request_id != second.request_id
    assert call.chunks[0].request_id is None


@pytest.mark.parametrize(
    ("writer", "before", "after"),
    [
        (ChatChunkWriter(StreamHeader("m", "r", None, False), role_sent=False), {"role_sent": False}, {"role_sent": True}),
        (CompletionChunkWriter(StreamHeader("m", "r", None, False), text_offset=3), {"logprob_text_offset": 3}, {"logprob_text_offset": 8}),
    ],
    ids=["chat", "completion"],
)  # fmt: skip
def test_a_writer_tells_what_it_wrote(writer: Any, before: Json, after: Json) -> None:
    assert writer.fields() == writer.fields() == before
    source = StreamChoice(index=0, token_ids=[1])
    writer.write(GenerateChunk(choices=[source]), [ChoiceOutput(source, content="Hello")])
    assert writer.fields() == writer.fields() == after


def test_a_whole_choice_and_its_stream_have_one_form(load: Callable[..., Model]) -> None:
    model = load()
    ids = model.tokenizer.encode("Hello, 漢字!", add_special_tokens=False)
    reader = OutputReader(model, NO_REQUEST)
    whole = read_text(reader, Choice(index=0, token_ids=ids, finish_reason="length"), reader.seed(PROMPT))
    stream = TextStream(reader, reader.seed(PROMPT))
    parts = [stream.advance(StreamChoice(index=0, token_ids=[i])) for i in ids]
    parts.append(stream.advance(StreamChoice(index=0, token_ids=[], finish_reason="length")))
    assert "".join(part.content or "" for part in parts) == whole.content == "Hello, 漢字!"
    assert [part.finish_reason for part in parts[:-1]] == [None] * len(ids)
    assert parts[-1].finish_reason == whole.finish_reason == "length"


def test_completions_are_bound_and_saved_alike(load: Callable[..., Model]) -> None:
    body = DerenderCompletionStreamRequest.model_validate(
        {"stream": True, "generate_chunk": {"request_id": "r", "choices": [{"index": 1, "token_ids": [9707]}]}}
    )
    first, second = (derender_completion_stream(load(), body) for _ in range(2))
    assert first["stream_state"] == second["stream_state"]
    assert (first["stream_state"]["index"], first["stream_state"]["request_id"]) == (1, "r")


def imported(package: str) -> Iterator[tuple[str, str]]:
    """The modules of ``core`` that a package imports, late ones too."""
    for path in sorted((ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                yield str(path.relative_to(ROOT)), node.module


@pytest.mark.parametrize(
    ("package", "above"),
    [
        ("core/choice", ("core.state", "core.derender", "core.relay", "core.protocol.openai", "core.protocol.derender")),
        ("core/state", ("core.derender", "core.relay")),
        ("core/derender", ("core.relay",)),
        ("core/relay", ("core.state",)),
    ],
)  # fmt: skip
def test_the_walk_of_a_chunk_goes_one_way(package: str, above: tuple[str, ...]) -> None:
    found = list(imported(package))
    assert len(found) > 10
    assert [pair for pair in found if pair[1].startswith(above)] == []
