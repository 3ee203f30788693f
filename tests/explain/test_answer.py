"""Outputs of five model families, explained: tokens, deltas, the whole answer, the audit."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.errors import RequestError
from core.explain.answer import MAX_IDS, MAX_REPLAYED, encode_output, explain_answer
from core.explain.prompt import REQUEST, explain_prompt
from core.model import Model
from tests.support.models import load, model_folders

Json = dict[str, Any]
EXAMPLES: list[Json] = json.loads(
    (Path(__file__).parents[2] / "handlers" / "playground" / "examples.json").read_text(encoding="utf-8")
)
FOLDERS = {
    "qwen": "qwen3",
    "llama": "llama3",
    "deepseek": "deepseek",
    "gpt-oss": "gpt-oss",
    "mistral": "mistral-tekken",
}
ARGUMENTS = {"city": "Paris", "days": 3}


def deployed(example: Json) -> Model:
    folder = next(folder for name, folder in FOLDERS.items() if example["title"].lower().startswith(name))
    parsers = {name: example.get(name) for name in ("tool_call_parser", "reasoning_parser")}
    return load(model_folders() / folder, enable_auto_tool_choice=True, **parsers)


def explained(model: Model, output: str, size: int = 1, **request: Any) -> Json:
    chat = {**REQUEST, "model": model.name, **request}
    _, prompt = explain_prompt(model, chat)
    return explain_answer(model, chat, prompt, encode_output(model.tokenizer, output), size)


def runs(tokens: list[Json]) -> list[tuple[str, str]]:
    groups = itertools.groupby(tokens, key=lambda token: token["kind"])
    return [(kind, "".join(token["text"] for token in run)) for kind, run in groups]


# What vLLM's parsers lose where a chunk has more than a token: the audit says so.
FAULTS = {
    ("DeepSeek V3.1", 5): "arguments",
    ("DeepSeek V3.1", 1000): "vanished",
    ("Llama 3", 1000): "vanished",
}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example["title"].partition(":")[0])
@pytest.mark.parametrize("size", [1, 5, 1000])
@pytest.mark.parametrize("answers", ["auto", "repaired"])
def test_examples(example: Json, size: int, answers: str) -> None:
    """Every example of the page is a call with its arguments, in colours, streamed as whole."""
    model = deployed(example)
    found = explained(model.with_options(replace(model.options, answers=answers)), example["output"], size)
    (call,) = found["whole"]["tool_calls"]
    assert call["name"] == "get_weather"
    assert json.loads(call["arguments"]) == ARGUMENTS
    kinds = dict(runs(found["tokens"]))
    assert "get_weather" in kinds["name"]
    assert "Paris" in "".join(text for kind, text in runs(found["tokens"]) if kind == "arguments")
    assert "markup" in kinds
    assert [delta["tokens"][0] for delta in found["deltas"]] == list(range(0, len(found["tokens"]), size))
    assert all(delta["state_bytes"] > 100 for delta in found["deltas"])
    fault = FAULTS.get((example["title"].partition(":")[0], size)) if answers == "auto" else None
    assert found["findings"] == ([fault] if fault else [])
    if fault:
        assert "tool_calls" in found["differs"]
        return
    assert found["deltas"][-1]["finish_reason"] == "tool_calls"
    (streamed,) = found["streamed"]["tool_calls"]
    assert streamed["name"] == "get_weather"
    assert json.loads(streamed["arguments"]) == ARGUMENTS


def test_reasoning_content_and_call_of_qwen() -> None:
    example = next(one for one in EXAMPLES if one["title"].startswith("Qwen 3:"))
    found = explained(deployed(example), example["output"])
    assert runs(found["tokens"]) == [
        ("markup", "<think>"),
        ("reasoning", "\nThe user wants the weather.\n"),
        ("markup", "</think>"),
        ("content", "\n\nI look.\n"),
        ("markup", '<tool_call>\n{"name": "'),
        ("name", "get_weather"),
        ("markup", '", "arguments":'),
        ("arguments", ' {"city": "Paris", "days": 3}}\n'),
        ("markup", "</tool_call><|im_end|>"),
    ]
    assert found["whole"] == {**found["streamed"], "content": found["whole"]["content"]}


def test_the_wrong_parser_is_seen() -> None:
    """pythonic reads hermes' calls as text: the markup stands in the content, and the audit says so."""
    model = load(
        model_folders() / "qwen3", tool_call_parser="pythonic", reasoning_parser="qwen3", enable_auto_tool_choice=True
    )
    found = explained(model, EXAMPLES[0]["output"])
    assert "markup" in found["findings"]
    assert "<tool_call>" in "".join(text for kind, text in runs(found["tokens"]) if kind == "content")


def test_without_a_parser() -> None:
    model = load(model_folders() / "qwen3")
    found = explained(model, "<think>a</think>b<|im_end|>", tools=None)
    assert runs(found["tokens"]) == [("content", "<think>a</think>b"), ("markup", "<|im_end|>")]
    assert found["whole"] == {"content": "<think>a</think>b"}


@pytest.mark.parametrize("ids", [[], [10**9], [-1], [1] * (MAX_IDS + 1)])
def test_ids_that_are_refused(ids: list[int]) -> None:
    model = load(model_folders() / "qwen3")
    with pytest.raises(RequestError) as refused:
        explain_answer(model, {"messages": [{"role": "user", "content": "x"}]}, [1], ids)
    assert refused.value.status == 400


def test_replayed_chunks_have_a_most() -> None:
    model = load(model_folders() / "qwen3", stream_state="replay")
    chat = {"messages": [{"role": "user", "content": "x"}]}
    with pytest.raises(RequestError, match="take larger ones"):
        explain_answer(model, chat, [1], [1] * (MAX_REPLAYED + 1))
    assert len(explain_answer(model, chat, [1], [1] * (MAX_REPLAYED + 1), 2)["deltas"]) == MAX_REPLAYED // 2 + 1


def test_a_prompt_and_what_is_not_in_it() -> None:
    model = load(model_folders() / "qwen3", chat_template="{{ messages[-1].content }}<|im_end|>")
    messages = [{"role": "system", "content": "Answer in Esperanto."}, {"role": "user", "content": "Good day, 漢字"}]
    prompt, ids = explain_prompt(model, {"model": model.name, "messages": messages})
    assert prompt["count"] == len(ids) == len(prompt["tokens"])
    assert "".join(token["text"] for token in prompt["tokens"]) == "Good day, 漢字<|im_end|>"
    assert [token["text"] for token in prompt["tokens"] if token["special"]] == ["<|im_end|>"]
    assert prompt["lost"] == ["Answer", "in", "Esperanto"]
