"""What vLLM loses of a request on the way to the prompt: kept where the deployment says so, and told either way."""

from __future__ import annotations

import json
from typing import Any

import pytest

from core.model import Model
from core.render.chat import render_chat, render_counted_chat
from core.render.prompt_audit import KINDS, audit_prompt
from core.upstream.requests import validate_chat
from tests.render.conftest import HARMONY, HERMES, WEATHER, FolderOf, ModelOf, chat, prompt_text
from tests.support.models import load

SCHEMA = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object", "properties": {"a": {}}}}}


def rendered(model: Model, body: dict[str, Any]) -> tuple[str, list[str]]:
    """The prompt's text, and what the audit says of it."""
    written = render_chat(model, body)
    return prompt_text(model, written), written.get("audit", [])


@pytest.mark.parametrize("architecture", ["DeepseekV4ForCausalLM", "DeepseekV41ForCausalLM"])
def test_the_developers_message_of_deepseek(folder_of: FolderOf, architecture: str) -> None:
    """Public report i36."""
    config = json.dumps({"architectures": [architecture], "max_position_embeddings": 65536, "vocab_size": 129280})
    folder = folder_of({"config.json": config}, origin="deepseek")
    asked = chat("u")
    asked["messages"].insert(0, {"role": "developer", "content": "DEVELOPER-TEXT"})
    for prompts, kept in (("vllm", False), ("repaired", True)):
        text, found = rendered(load(folder, prompts=prompts, audit="response"), asked)
        assert ("DEVELOPER-TEXT" in text) is kept
        assert found == ([] if kept else ["dropped"])
        assert text.rstrip().endswith("<think>")
        assert ("<｜User｜>DEVELOPER-TEXT\n\nu<｜Assistant｜>" in text) is kept


def test_a_forced_format_that_empties_a_turn(model_of: ModelOf) -> None:
    """Public report i30."""
    options = {"chat_template_content_format": "openai", "audit": "response"}
    text, found = rendered(model_of("qwen3", **options), chat("hi there"))
    assert "<|im_start|>user\n<|im_end|>" in text
    assert found == ["dropped"]
    text, found = rendered(model_of("qwen3", prompts="repaired", **options), chat("hi there"))
    assert "<|im_start|>user\nhi there<|im_end|>" in text
    assert found == []


@pytest.mark.parametrize("strict", [False, True])
def test_strict_is_for_the_decoder(model_of: ModelOf, strict: bool) -> None:
    """Public report i31."""
    tool = {**WEATHER, "function": {**WEATHER["function"], "strict": strict}}  # type: ignore[dict-item]
    plain, _ = rendered(model_of("qwen3", **HERMES), chat("x", tools=[WEATHER]))
    theirs, _ = rendered(model_of("qwen3", **HERMES), chat("x", tools=[tool]))
    ours, _ = rendered(model_of("qwen3", prompts="repaired", **HERMES), chat("x", tools=[tool]))
    assert '"strict"' in theirs
    assert ours == plain


def test_a_response_format_beside_tools(model_of: ModelOf) -> None:
    """Public report i34."""
    asked = chat("x", tools=[WEATHER], response_format=SCHEMA)
    theirs = render_chat(model_of("qwen3", audit="response", **HERMES), asked)
    assert theirs["sampling_params"]["structured_outputs"].get("structural_tag") is None
    assert theirs["audit"] == ["no_call"]
    ours = render_chat(model_of("qwen3", prompts="repaired", audit="response", **HERMES), asked)
    tag = json.loads(ours["sampling_params"]["structured_outputs"]["structural_tag"])
    assert tag["format"]["type"] == "or"
    assert "get_weather" in json.dumps(tag)
    assert '"a"' in json.dumps(tag)
    assert ours["audit"] == []
    # It is what vLLM makes of it itself, where it is told to constrain calls.
    told = render_chat(model_of("qwen3", tool_strict_level="function", **HERMES), asked)
    assert told["sampling_params"]["structured_outputs"] == ours["sampling_params"]["structured_outputs"]


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "get_weather"}}])
def test_a_forced_call_that_nothing_forces(model_of: ModelOf, choice: Any) -> None:
    asked = chat("x", tools=[WEATHER], tool_choice=choice)
    held = render_chat(model_of("qwen3", audit="response", **HERMES), asked)
    assert held["audit"] == []
    options = {"tool_call_parser": "openai", "enable_auto_tool_choice": True, "audit": "response"}
    loose = render_chat(model_of("llama3", **{**options, "tool_call_parser": "pythonic"}), asked)
    assert loose["audit"] == ([] if loose["sampling_params"].get("structured_outputs") else ["unconstrained"])


def test_the_relay_repairs_unless_it_is_told_not_to(model_of: ModelOf) -> None:
    tool = {**WEATHER, "function": {**WEATHER["function"], "strict": True}}  # type: ignore[dict-item]
    for prompts, repaired in ((None, True), ("vllm", False), ("repaired", True)):
        model = model_of("qwen3", prompts=prompts, **HERMES)
        request = validate_chat(chat("x", tools=[tool]))
        written, _ = render_counted_chat(model, request, relayed=True)
        assert ('"strict"' not in prompt_text(model, written)) is repaired
        assert "audit" not in written


@pytest.mark.parametrize(
    ("name", "options"), [("qwen3", HERMES), ("llama3", {}), ("gpt-oss", HARMONY), ("mistral-spm", {})]
)
def test_whole_conversations_are_whole(model_of: ModelOf, name: str, options: dict[str, Any]) -> None:
    """Escaped, trimmed, rearranged by templates, with thoughts that they leave out."""
    body = chat('Grüße,\n\t"Welt" \\ 漢字 — 😀  ')
    body["messages"] += [
        {"role": "assistant", "content": "<think>\nNever shown again.\n</think>\n\nAn answer."},
        {"role": "user", "content": [{"type": "text", "text": "Part one"}, {"type": "text", "text": "part two"}]},
    ]
    model = model_of(name, audit="response", **options)
    if name == "mistral-spm":
        body["messages"][2]["content"] = "Part one"
    assert render_chat(model, body)["audit"] == []


def test_tool_results_are_found(model_of: ModelOf) -> None:
    body = chat("weather?", tools=[WEATHER])
    call = {"id": "a", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}
    body["messages"] += [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": 'It says: "14°C\nand rain" in Köln'},
    ]
    for name in ("qwen3", "llama3"):
        options = HERMES if name == "qwen3" else {"tool_call_parser": "llama3_json", "enable_auto_tool_choice": True}
        assert render_chat(model_of(name, audit="response", **options), body)["audit"] == []


def test_a_template_that_forgets(model_of: ModelOf) -> None:
    model = model_of("qwen3", chat_template="{{ messages[-1].content }}", audit="response")
    assert render_chat(model, chat("all of it"))["audit"] == []
    body = chat("last")
    body["messages"].insert(0, {"role": "system", "content": "Be brief"})
    assert render_chat(model, body)["audit"] == ["dropped"]
    silent = model_of("qwen3", chat_template="{{ messages[-1].content }}", audit="off")
    assert "audit" not in render_chat(silent, body)
    counted = model_of("qwen3", chat_template="{{ messages[-1].content }}")
    assert "audit" not in render_chat(counted, body)
    assert render_chat(counted, body).findings == ("dropped",)  # type: ignore[attr-defined]


class CountedText(str):
    """A prompt that counts how often it is looked through."""

    searches = 0

    def find(self, *args: Any) -> int:  # type: ignore[override]
        CountedText.searches += 1
        return super().find(*args)


def test_the_work_is_one_pass() -> None:
    """Many texts that are not there as they were given: after the first, only their own words are looked at."""
    messages = [{"role": "user", "content": f"word{number} and"} for number in range(2000)]
    request = validate_chat({"messages": messages})
    prompt = CountedText(" ".join(f"word{number}" for number in range(2000)) + " and")
    assert audit_prompt(request, None, prompt, {}) == []
    assert CountedText.searches == 1
    assert audit_prompt(request, None, CountedText("nothing"), {}) == ["dropped"]
    assert KINDS == ("dropped", "unconstrained", "no_call")
