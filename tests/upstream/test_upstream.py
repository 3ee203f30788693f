"""The one door to vLLM: its version, and how often a request goes through it."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.dialects.chat import CHAT
from core.dialects.completions import COMPLETIONS
from core.model import Model
from core.protocol.engine import GenerateChunk
from core.relay.answer import AnswerStream
from core.relay.request import open_chat
from core.relay.whole import WholeAnswer
from core.render.chat import render_chat
from core.upstream import contract
from core.upstream.contract import LACKING, USES, has
from core.upstream.requests import chat_type, completion_type
from core.upstream.version import slice_version, vllm_version
from infra.slice.versions import NEWEST
from tests.support.models import load

WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {}}}}
CHUNK = GenerateChunk.model_validate(
    {"request_id": "r", "choices": [{"index": 0, "token_ids": [9707, 0], "finish_reason": "stop"}]}
)
HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "Hello"}]}


@pytest.fixture(scope="module")
def model_of(models_dir: Path) -> Callable[..., Model]:
    def make(name: str, **options: Any) -> Model:
        fixed = {"enable_auto_tool_choice": True, "system_start_date": "2031-01-15"}
        return load(models_dir / name, served_names=("m",), **{**fixed, **options})

    return make


def test_the_version_that_is_told_is_the_one_that_is_imported() -> None:
    from vllm.version import __version__

    assert vllm_version() == __version__
    assert slice_version().startswith(f"{__version__}+slice.")


@pytest.mark.parametrize(
    ("folder", "options", "fields", "built"),
    [
        ("qwen3", {"tool_call_parser": "hermes", "reasoning_parser": "qwen3"}, {"tools": [WEATHER]}, 1),
        ("qwen3", {"tool_call_parser": "hermes", "reasoning_parser": "qwen3"}, {}, 1),
        ("qwen3", {"tool_call_parser": "hermes"}, {"tools": [WEATHER], "tool_choice": "required"}, 1),
        ("qwen3", {"tool_call_parser": "hermes"}, {}, 0),
        ("gpt-oss", {"tool_call_parser": "openai"}, {"tools": [WEATHER]}, 1),
    ],
)
def test_a_render_builds_its_parser_once(
    model_of: Callable[..., Model],
    monkeypatch: pytest.MonkeyPatch,
    folder: str,
    options: dict[str, Any],
    fields: dict[str, Any],
    built: int,
) -> None:
    model = model_of(folder, **options)
    assert model.chat_parser is not None
    parser_cls = model.chat_parser.parser_cls
    made: list[Any] = []

    class Counted(parser_cls):  # type: ignore[misc, valid-type]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            made.append(self)
            super().__init__(*args, **kwargs)

    expected = render_chat(model, {**HELLO, **fields}, "r")
    monkeypatch.setattr(model.chat_parser, "parser_cls", Counted)
    assert render_chat(model, {**HELLO, **fields}, "r") == expected
    assert len(made) == built


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("parser", [None, "hermes"])
def test_the_relay_validates_a_request_once(
    model_of: Callable[..., Model], monkeypatch: pytest.MonkeyPatch, parser: str | None, stream: bool
) -> None:
    model = model_of("qwen3", tool_call_parser=parser, enable_auto_tool_choice=parser is not None)
    seen: list[str] = []

    def count(kind: Any) -> None:
        validate = kind.model_validate

        def counted(*args: Any, **kwargs: Any) -> Any:
            seen.append(kind.__name__)
            return validate(*args, **kwargs)

        monkeypatch.setattr(kind, "model_validate", counted)

    for kind in (chat_type(), completion_type()):
        count(kind)
    completion = {"prompt": "Hello", "max_tokens": 4, "logprobs": 1}
    for dialect, body in ((CHAT, {**HELLO, "max_tokens": 4}), (COMPLETIONS, completion)):
        door = dialect.relaying()
        request = door.open_request(model, {**body, "stream": stream})
        if stream:
            written = AnswerStream(request, door.writer(request))
            assert [*written.begin(), *written.advance(0, CHUNK), *written.end()]
        else:
            whole = WholeAnswer(request, door.answer)
            whole.add(0, CHUNK)
            assert whole.end()["choices"]
    assert seen == ["ChatCompletionRequest", "CompletionRequest"]


def test_what_a_parser_sets_for_the_engine_does_not_change_how_the_answer_is_read(
    model_of: Callable[..., Model],
) -> None:
    model = model_of("qwen3", tool_call_parser="hermes", reasoning_parser="qwen3")
    opened = open_chat(model, {**HELLO, "tools": [WEATHER], "max_tokens": 4})
    # The engine is told to keep special tokens, which the parser reads; the client did not ask for them.
    assert opened.prompts[0]["sampling_params"]["skip_special_tokens"] is False
    assert opened.chat.skip_special_tokens is None
    assert opened.options.skip_special_tokens is True


def test_the_contract_has_all_that_is_imported_of_vllm() -> None:
    named = {(use.name.partition(":")[0], use.name.partition(":")[2].partition(".")[0]) for use in USES}
    missing = set()
    for path in sorted(Path(contract.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "vllm":
                missing |= {(node.module or "", alias.name) for alias in node.names} - named
    assert not missing


def test_an_older_version_is_asked_for_nothing_that_it_lacks() -> None:
    assert has(NEWEST, "get_parser.tokenizer")
    assert not has("0.31.0", "get_parser.tokenizer")
    names = {use.name for use in USES} | {
        f"{use.name.rpartition('.')[2].rpartition(':')[2]}.{argument}" for use in USES for argument in use.named
    }
    for lacking in LACKING.values():
        assert lacking <= names
