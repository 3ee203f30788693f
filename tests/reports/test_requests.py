"""Public reports of the second round about requests: other dialects' prompts, what is written of a conversation, and
what constrains an answer. docs/reports.md has the list."""

from __future__ import annotations

import json

import pytest

from tests.golden.corpus import Json
from tests.reports.requests import NAMED, WEATHER, tool
from tests.reports.service import RENDER_CHAT, RENDER_COMPLETIONS, Service, Services, user

QWEN35 = ("qwen3.5", "qwen3_coder", "qwen3")
LS = {"name": "ls", "description": "d"}
PATH = {"type": "object", "properties": {"path": {"type": "string"}}}
RESULT = [{"type": "text", "text": "15 C"}, {"type": "text", "text": "cloudy"}]
PARTS = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
EFFORTS = ("minimal", "low", "medium", "high", "xhigh", "max")


def with_history(name: str = "reasoning_content", **fields: Json) -> Json:
    """A chat whose history has a thought, a call and the call's result in two parts."""
    call = {"id": "a", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'}}
    assistant = {"role": "assistant", "content": None, name: "old thought", "tool_calls": [call], **fields}
    body = user("weather?", tools=WEATHER)
    body["messages"] += [assistant, {"role": "tool", "tool_call_id": "a", "content": RESULT}]
    return body


def constraint(service: Service, body: Json) -> Json:
    """The structural tag of a rendered request; None where nothing constrains it."""
    outputs = service.ok(RENDER_CHAT, body)["sampling_params"].get("structured_outputs") or {}
    tag = outputs.get("structural_tag")
    return None if tag is None else json.loads(tag)


def test_i02_messages(services: Services) -> None:
    result = [{"type": "text", "text": "a.py"}, {"type": "text", "text": "b.py"}]
    messages = [
        {"role": "user", "content": "List files"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "I list them.", "signature": "x"},
                {"type": "text", "text": "Listing."},
                {"type": "tool_use", "id": "t1", "name": "ls", "input": {"path": "."}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": result}]},
    ]
    system = [{"type": "text", "text": "You are an agent."}]
    body = {"model": "m", "max_tokens": 32, "system": system, "messages": messages}
    body["tools"] = [{**LS, "input_schema": PATH}]
    service = services.get(*QWEN35)
    prompt = service.prompt("/v1/messages/render", body)
    assert "<think>\nI list them.\n</think>\n\nListing.\n<tool_call>\n<function=ls>\n<parameter=path>\n.\n" in prompt
    assert "<|im_start|>user\n<tool_response>\na.py\nb.py\n</tool_response><|im_end|>\n" in prompt
    assert "</tools>\n\nYou are an agent.<|im_end|>\n<|im_start|>user\nList files<|im_end|>" in prompt
    # A system message in the middle is moved to the front.
    body["messages"] = [messages[0], {"role": "system", "content": "Late rule."}, *messages[1:]]
    assert "Late rule.<|im_end|>\n<|im_start|>user\nList files<|im_end|>" in service.prompt("/v1/messages/render", body)


def test_i03_responses(services: Services) -> None:
    items = [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Rules."}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "List files"}]},
        {"type": "function_call", "call_id": "c1", "name": "ls", "arguments": '{"path": "."}'},
        {"type": "function_call_output", "call_id": "c1", "output": "a.py"},
    ]
    body = {"model": "m", "instructions": "Be brief.", "input": items, "max_output_tokens": 32, "store": False}
    body["tools"] = [{"type": "function", **LS, "parameters": PATH, "strict": False}]
    service = services.get(*QWEN35)
    prompt = service.prompt("/v1/responses/render", body)
    assert "Be brief.\n\nRules.<|im_end|>\n<|im_start|>user\nList files<|im_end|>" in prompt
    assert "<function=ls>\n<parameter=path>\n.\n</parameter>" in prompt
    assert "<tool_response>\na.py\n</tool_response>" in prompt
    rendered = service.ok("/v1/responses/render", body)
    assert rendered["request_id"].startswith("resp_")
    assert rendered["sampling_params"]["max_tokens"] == 32


def test_i04_calls_are_constrained_where_the_operator_says_so(services: Services) -> None:
    body = user(tools=WEATHER)
    assert constraint(services.get("qwen3.5", "qwen3_coder"), body) is None
    tag = constraint(services.get("qwen3.5", "qwen3_coder", tool_strict_level="function"), body)
    assert [one["begin"] for one in tag["format"]["tags"]] == ["<tool_call>\n<function=get_weather>\n"]


def test_i05_efforts_have_the_templates_names(services: Services) -> None:
    known = "{%- set effort = reasoning_effort|default('xhigh') -%}"
    template = (
        known
        + "{%- if effort not in ('xhigh', 'medium', 'low') -%}{{ raise_exception('Invalid reasoning_effort: ' ~ effort) }}"
        + "{%- endif -%}[{{ effort }}] {{ messages[0].content }}"
    )
    body = user(reasoning_effort="high")
    mapped = services.get("qwen3", chat_template=template, reasoning_effort_map={"high": "xhigh"})
    assert mapped.prompt(RENDER_CHAT, body) == "[xhigh] hi"
    assert services.get("qwen3", chat_template=template).error(RENDER_CHAT, body) == "Invalid reasoning_effort: high"


@pytest.mark.parametrize("setup", [("qwen3", "hermes", "qwen3"), QWEN35])
def test_i27_an_old_thought(services: Services, setup: tuple[str, ...]) -> None:
    service = services.get(*setup)
    for name in ("reasoning_content", "reasoning"):
        assert "<think>\nold thought\n</think>" in service.prompt(RENDER_CHAT, with_history(name))
    # With both, `reasoning` is the newer name.
    both = service.prompt(RENDER_CHAT, with_history(reasoning="newer thought"))
    assert "newer thought" in both
    assert "old thought" not in both


def test_i27_an_old_thought_of_harmony(services: Services) -> None:
    service = services.get("gpt-oss", "openai", "openai_gptoss")
    for name in ("reasoning_content", "reasoning"):
        assert "<|channel|>analysis<|message|>old thought<|end|>" in service.prompt(RENDER_CHAT, with_history(name))


GLM = (
    "{% for m in messages %}[{{ m.role }}]{% if m.role == 'tool' %}{% if m.content is string %}{{ m.content }}"
    "{% else %}{% for part in m.content %}{{ part.output }}{% endfor %}{% endif %}{% else %}"
    "{% if m.content is string %}{{ m.content }}{% else %}{% for part in m.content or [] %}{{ part.text }}{% endfor %}"
    "{% endif %}{% endif %}{% endfor %}"
)


@pytest.mark.parametrize(
    ("setup", "settings", "written"),
    [
        (("qwen3", "hermes"), {}, "15 C\ncloudy"),
        (("qwen3", "hermes"), {"chat_template": GLM}, "[tool]15 C\ncloudy"),
        (("qwen3.5", "qwen3_coder"), {}, "15 C\ncloudy"),
        (("deepseek", "deepseek_v31"), {}, "15 C\ncloudy"),
        (("gpt-oss", "openai", "openai_gptoss"), {}, "15 Ccloudy"),
    ],
    ids=["qwen3", "glm", "qwen3.5", "deepseek", "gpt-oss"],
)
def test_i28_a_result_in_parts(services: Services, setup: tuple[str, ...], settings: Json, written: str) -> None:
    prompt = services.get(*setup, **settings).prompt(RENDER_CHAT, with_history())
    assert written in prompt
    assert "'type'" not in prompt


def test_i29_the_content_format_is_found(services: Services) -> None:
    """In a macro's parameter, too; words about media in a comment are no parts."""
    macro = (
        "{%- macro render(message_content) -%}{%- if message_content is string -%}{{ message_content }}{%- else -%}"
        "{%- for part in message_content -%}[{{ part.text }}]{%- endfor -%}{%- endif -%}{%- endmacro -%}"
        "{%- for message in messages -%}{{ render(message.content) }}{%- endfor -%}"
    )
    text_only = (
        "{# revision, image and audio are not supported #}{%- for m in messages -%}{{ m.content }}{%- endfor -%}"
    )
    body = user(PARTS)  # type: ignore[arg-type]
    assert services.get("qwen3", chat_template=macro).prompt(RENDER_CHAT, body) == "[a][b]"
    assert services.get("qwen3", chat_template=text_only).prompt(RENDER_CHAT, body) == "a\nb"


@pytest.mark.parametrize("choice", ["auto", "required", NAMED], ids=["auto", "required", "named"])
def test_i32_strict_tools_and_forced_calls_are_constrained(services: Services, choice: Json) -> None:
    strict = tool()
    strict["function"]["strict"] = True
    body = user(tools=[strict], tool_choice=choice)
    service = services.get(*QWEN35)
    assert "get_weather" in json.dumps(constraint(service, body))
    assert service.ok(RENDER_CHAT, body)["reasoning_ended"] is False  # the prompt opens it
    if choice == "required":
        for name in ("glm47", "minimax_m2", "kimi_k2"):
            assert "get_weather" in json.dumps(constraint(services.get("families", name, name), body))
        assert "get_weather" in json.dumps(constraint(services.get("gpt-oss", "openai", "openai_gptoss"), body))


@pytest.mark.parametrize(
    ("setup", "closed", "opened"),
    [
        (("qwen3", "", "qwen3"), "<think>\n\n</think>\n\n", "<|im_start|>assistant\n"),
        (("deepseek", "", "deepseek_v3"), "</think>", "<think>"),
    ],
)
def test_i35_an_effort_switches_thinking(services: Services, setup: tuple[str, ...], closed: str, opened: str) -> None:
    service = services.get(*setup)

    def end(**fields: Json) -> tuple[bool, bool, bool]:
        body = user(**fields)
        prompt = service.prompt(RENDER_CHAT, body)
        kept = service.ok(RENDER_CHAT, body)["reasoning_parser_kwargs"]["chat_template_kwargs"]
        return prompt.endswith(closed), prompt.endswith(opened), kept["enable_thinking"]

    assert end(reasoning_effort="none") == (True, False, False)
    for effort in EFFORTS:
        assert end(reasoning_effort=effort) == (False, True, True)
    for thinks in (True, False):
        told = end(reasoning_effort="high", chat_template_kwargs={"enable_thinking": thinks})
        assert told[2] is thinks
        assert told[0] is (not thinks)


def test_i35_harmony_knows_three_efforts(services: Services) -> None:
    service = services.get("gpt-oss", "openai", "openai_gptoss")
    for effort in ("low", "medium", "high"):
        assert f"Reasoning: {effort}" in service.prompt(RENDER_CHAT, user(reasoning_effort=effort))
    assert "reasoning_effort='none'" in service.error(RENDER_CHAT, user(reasoning_effort="none"))


def test_i38_nulls(services: Services) -> None:
    service = services.get("qwen3", "hermes")
    body = {"model": "m", "prompt": "test", "max_tokens": None, "temperature": 0}
    (rendered,) = service.ok(RENDER_COMPLETIONS, body)
    del body["max_tokens"]
    (missing,) = service.ok(RENDER_COMPLETIONS, body)
    assert rendered["sampling_params"] == missing["sampling_params"]
    assert rendered["sampling_params"]["max_tokens"] == 16
    # Refused by vLLM, too.
    assert "'loc': 'body.n'" in service.error(RENDER_COMPLETIONS, {**body, "n": None})
    for name in ("min_tokens", "include_reasoning", "add_generation_prompt"):
        assert f"'loc': 'body.{name}'" in service.error(RENDER_CHAT, user(**{name: None}))
