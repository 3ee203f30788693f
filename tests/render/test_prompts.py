"""What vLLM loses of a request on the way to the prompt: kept where the deployment says so, and told either way."""

from __future__ import annotations

import json
from typing import Any

import pytest

from core.dialects.messages import relay as message_relay
from core.dialects.messages import render as message_rendering
from core.dialects.responses import relay as response_relay
from core.dialects.responses import render as response_rendering
from core.model import Model
from core.render.chat import render_chat, render_counted_chat
from core.render.prompt_audit import KINDS, audit_prompt
from core.render.tokenize import tokenize
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
    for continued in (body, {**body, "continue_from": {}}):
        assert render_chat(counted, continued).findings == ("dropped",)  # type: ignore[attr-defined]


def responses(given: str = "x", /, **fields: Any) -> dict[str, Any]:
    return {"model": "m", "input": given, "max_output_tokens": 16, "store": False, **fields}


def of_responses(model: Model, body: dict[str, Any]) -> tuple[str, list[str], dict[str, Any]]:
    """The prompt's text, what the audit says of it, and what constrains the answer, of a Responses request."""
    written = response_rendering.render(model, body)
    assert isinstance(written, dict)
    constraint = written["sampling_params"].get("structured_outputs") or {}
    return prompt_text(model, written), written.get("audit", []), constraint


NAMED = {"served_names": ("m",)}
FLAT = {"type": "function", **WEATHER["function"]}  # type: ignore[dict-item]


@pytest.mark.parametrize("architecture", ["DeepseekV4ForCausalLM", "DeepseekV41ForCausalLM"])
def test_responses_keep_the_developers_message(folder_of: FolderOf, architecture: str) -> None:
    config = json.dumps({"architectures": [architecture], "max_position_embeddings": 65536, "vocab_size": 129280})
    folder = folder_of({"config.json": config}, origin="deepseek")
    asked = responses()
    asked["input"] = [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "DEVELOPER-TEXT"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "u"}]},
    ]
    for prompts, found in (("vllm", ["dropped"]), ("repaired", [])):
        text, audited, _ = of_responses(load(folder, prompts=prompts, audit="response", **NAMED), asked)
        assert audited == found
        assert ("DEVELOPER-TEXT" in text) is not found


def test_responses_of_a_forced_format(model_of: ModelOf) -> None:
    options = {"chat_template_content_format": "openai", "audit": "response", **NAMED}
    assert of_responses(model_of("qwen3", **options), responses("hi there"))[1] == ["dropped"]
    text, found, _ = of_responses(model_of("qwen3", prompts="repaired", **options), responses("hi there"))
    assert "<|im_start|>user\nhi there<|im_end|>" in text
    assert found == []


def test_responses_with_strict_tools(model_of: ModelOf) -> None:
    asked = responses(tools=[{**FLAT, "strict": True}])
    theirs, _, held = of_responses(model_of("qwen3", **NAMED, **HERMES), asked)
    ours, _, same = of_responses(model_of("qwen3", prompts="repaired", **NAMED, **HERMES), asked)
    assert '"strict"' in theirs
    assert '"strict"' not in ours
    assert held == same
    assert "get_weather" in json.dumps(held)
    written = response_rendering.render(model_of("qwen3", prompts="repaired", **NAMED, **HERMES), asked)
    assert written["parse_context"]["tools"][0]["function"]["strict"] is True  # type: ignore[call-overload]


def test_responses_with_a_format_beside_tools(model_of: ModelOf) -> None:
    form = {"type": "json_schema", "name": "x", "schema": SCHEMA["json_schema"]["schema"]}  # type: ignore[index]
    asked = responses(tools=[{**FLAT, "strict": False}], text={"format": form})
    options = {"audit": "response", **NAMED, **HERMES}
    _, found, theirs = of_responses(model_of("qwen3", **options), asked)
    assert (found, theirs.get("structural_tag")) == (["no_call"], None)
    _, found, ours = of_responses(model_of("qwen3", prompts="repaired", **options), asked)
    assert found == []
    tag = json.loads(ours["structural_tag"])
    assert tag["format"]["type"] == "or"
    assert "get_weather" in json.dumps(tag)


def test_a_format_of_plain_text_is_none(model_of: ModelOf) -> None:
    """Nothing is constrained for it, in no dialect."""
    model = model_of("qwen3", prompts="repaired", audit="response", **NAMED, **HERMES)
    written = render_chat(model, chat("x", tools=[WEATHER], response_format={"type": "text"}))
    assert (written["audit"], written["sampling_params"].get("structured_outputs")) == ([], None)
    asked = responses(tools=[{**FLAT, "strict": False}], text={"format": {"type": "text"}})
    assert of_responses(model, asked)[1:] == ([], {})


@pytest.mark.parametrize(
    ("name", "options"), [("qwen3", HERMES), ("llama3", {}), ("gpt-oss", HARMONY), ("mistral-spm", {})]
)
def test_whole_responses_are_whole(model_of: ModelOf, name: str, options: dict[str, Any]) -> None:
    given = [
        {"role": "user", "content": 'Grüße,\n\t"Welt" 漢字'},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "An answer."}]},
        {"role": "user", "content": [{"type": "input_text", "text": "Go on"}]},
    ]
    body = responses(input=given) if name == "mistral-spm" else responses(input=given, instructions="Be brief.")
    assert of_responses(model_of(name, audit="response", **NAMED, **options), body)[1] == []


def test_the_relays_responses_are_repaired_unless_it_is_told_not_to(model_of: ModelOf) -> None:
    asked = responses(tools=[{**FLAT, "strict": True}])
    for prompts, repaired in ((None, True), ("vllm", False), ("repaired", True)):
        model = model_of("qwen3", prompts=prompts, audit="response", **NAMED, **HERMES)
        opened = response_relay.open_request(model, asked)
        assert ('"strict"' not in model.tokenizer.decode(opened.prompts[0]["token_ids"])) is repaired
        assert "audit" not in opened.prompts[0]
    empty = model_of("qwen3", chat_template="{{ messages[-1].content }}", **NAMED)
    lost = responses(instructions="Be brief")
    assert response_relay.open_request(empty, lost).findings == ("dropped",)
    for continued in (lost, {**lost, "continue_from": {}}):
        assert response_rendering.render(empty, continued).findings == ("dropped",)  # type: ignore[attr-defined]


def test_a_count_is_that_of_the_prompt(model_of: ModelOf) -> None:
    """Of render's, and of the relay's where it is asked; lost words are told there, too."""
    options = {"chat_template_content_format": "openai", "audit": "response", **NAMED}
    body = {"model": "m", "messages": [{"role": "user", "content": "hi there"}], "max_tokens": 16}
    asked = {"model": "m", "messages": body["messages"]}
    lengths = set()
    for prompts in (None, "vllm", "repaired"):
        model = model_of("qwen3", prompts=prompts, **options)
        counted = message_rendering.count(model, asked)
        rendered = message_rendering.render(model, body)
        assert counted.tokens == counted.answer["input_tokens"] == len(rendered["token_ids"])
        assert counted.answer["audit"] == list(counted.findings) == rendered["audit"]
        assert counted.findings == (() if prompts == "repaired" else ("dropped",))
        relayed = message_relay.open_request(model, body)
        assert message_rendering.count(model, asked, relayed=True).tokens == relayed.prompt_tokens
        chat_body = {"model": "m", "messages": body["messages"]}
        assert tokenize(model, chat_body)["tokens"] == render_chat(model, chat_body)["token_ids"]
        lengths.add((counted.tokens, relayed.prompt_tokens))
    assert len(lengths) == 3


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
    messages = request.messages
    prompt = CountedText(" ".join(f"word{number}" for number in range(2000)) + " and")
    assert audit_prompt(request, messages, None, prompt, {}) == []
    assert CountedText.searches == 1
    assert audit_prompt(request, messages, None, CountedText("nothing"), {}) == ["dropped"]
    assert KINDS == ("dropped", "unconstrained", "no_call")
