"""Public reports of class g: rendering. docs/reports.md has the list."""

import pytest

from tests.golden.corpus import Json
from tests.reports.service import RENDER_CHAT, Services

TEMPLATES = ["qwen3", "llama3", "deepseek", "qwen3.5", "mistral-spm", "mistral-tekken"]
PARTS = [{"type": "text", "text": "Hello"}, {"type": "text", "text": "there"}]
CALL_ID = "abcdefghi"  # the form that Mistral's own templates ask for


def chat(*messages: Json, **fields: Json) -> Json:
    return {"model": "m", "messages": list(messages), **fields}


def said(content: Json, role: str = "user", **fields: Json) -> Json:
    return {"role": role, "content": content, **fields}


def called(arguments: Json = '{"city": "Paris"}', **fields: Json) -> Json:
    function = {"name": "get_weather", "arguments": arguments}
    return {"role": "assistant", "tool_calls": [{"id": CALL_ID, "type": "function", "function": function}], **fields}


def conversation(assistant: Json, result: Json = "18C") -> Json:
    return chat(said("w?"), assistant, {"role": "tool", "tool_call_id": CALL_ID, "content": result})


@pytest.mark.parametrize("model", TEMPLATES)
def test_g01_arguments_as_text(services: Services, model: str) -> None:
    """vLLM's own: arguments that are no JSON object become an empty one, so that the conversation can go on."""
    service = services.get(model)
    prompt = service.prompt(RENDER_CHAT, conversation(called(content="")))
    assert "<parameter=city>\nParis" in prompt if model == "qwen3.5" else '{"city": "Paris"}' in prompt
    empty = service.prompt(RENDER_CHAT, conversation(called("", content="")))
    for arguments in ('{"city": ', "[1]"):
        assert service.prompt(RENDER_CHAT, conversation(called(arguments, content=""))) == empty
    assert "get_weather" in empty


@pytest.mark.parametrize("model", TEMPLATES)
@pytest.mark.parametrize("fields", [{"content": None}, {}])
def test_g02_no_content_beside_a_call(services: Services, model: str, fields: Json) -> None:
    service = services.get(model)
    prompt = service.prompt(RENDER_CHAT, conversation(called(**fields)))
    assert "get_weather" in prompt
    assert "Paris" in prompt
    assert "None" not in prompt
    assert prompt == service.prompt(RENDER_CHAT, conversation(called(content="")))


@pytest.mark.parametrize(
    ("setup", "begin"),
    [
        (("qwen3",), "<|im_start|>system\nReply BANANA<|im_end|>"),
        (("qwen3.5",), "<|im_start|>system\nReply BANANA<|im_end|>"),
        (("llama3",), "<|start_header_id|>system<|end_header_id|>\n\nReply BANANA<|eot_id|>"),
        (("mistral-tekken",), "Reply BANANA"),
        (("gpt-oss", "openai", "openai_gptoss"), "<|start|>developer<|message|># Instructions\n\nReply BANANA<|end|>"),
    ],
)
def test_g03_a_developer_message(services: Services, setup: tuple[str, ...], begin: str) -> None:
    body = chat(said("Reply BANANA", "developer"), said("capital?"))
    assert begin in services.get(*setup).prompt(RENDER_CHAT, body)


@pytest.mark.parametrize(("last", "end"), [("OK! ", "\n\nOK!"), ("OK!\n", "\n\nOK!"), ("joke", "\n\njoke"), ("", "")])
def test_g05_an_open_final_message(services: Services, last: str, end: str) -> None:
    """As transformers 5 renders it: white space at its end is cut, text that was said before is not."""
    body = chat(said("joke"), said(last, "assistant"), continue_final_message=True, add_generation_prompt=False)
    prompt = services.get("llama3").prompt(RENDER_CHAT, body)
    head = "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\njoke<|eot_id|>"
    assert prompt == f"{head}<|start_header_id|>assistant<|end_header_id|>{end}"
    message = services.get("llama3").error(RENDER_CHAT, {**body, "add_generation_prompt": True})
    assert message.startswith("Cannot set both")


@pytest.mark.parametrize(
    "setup", [("qwen3", "hermes"), ("mistral-tekken", "mistral"), ("gpt-oss", "openai", "openai_gptoss")]
)
def test_g06_nothing_in_a_schema_is_escaped(services: Services, setup: tuple[str, ...]) -> None:
    parameters = {"type": "object", "properties": {}}
    tool = {"type": "function", "function": {"name": "w", "description": "天气 <b> & it's", "parameters": parameters}}
    assert "天气 <b> & it's" in services.get(*setup).prompt(RENDER_CHAT, chat(said("hi"), tools=[tool]))


@pytest.mark.parametrize("model", ["qwen3", "mistral-tekken"])
@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ({"tokenize": False, "add_generation_prompt": False, "tools": []}, 200),
        ({"return_dict": True, "padding": True, "truncation": True, "max_length": 1}, 200),
        ({"messages": [{"role": "user", "content": "other"}]}, 400),
        ({"conversation": [{"role": "user", "content": "other"}]}, 400),
        ({"tokenizer": 1}, 400),
        ({"chat_template": "x"}, 400),
    ],
)
def test_g08_template_arguments_of_reserved_names(services: Services, model: str, arguments: Json, status: int) -> None:
    service = services.get(model)
    body = chat(said("hi"), chat_template_kwargs=arguments)
    if status == 200 and model == "qwen3":
        assert service.prompt(RENDER_CHAT, body) == service.prompt(RENDER_CHAT, chat(said("hi")))
    else:
        assert service.error(RENDER_CHAT, body)


@pytest.mark.parametrize("model", ["qwen3", "llama3", "qwen3.5", "mistral-spm"])
def test_g09_content_in_parts(services: Services, model: str) -> None:
    assistant = called(content=PARTS)
    body = conversation(assistant, [{"type": "text", "text": "18C"}])
    body["messages"] = [said(PARTS, "system"), said(PARTS), *body["messages"][1:]]
    prompt = services.get(model).prompt(RENDER_CHAT, body)
    assert "'type'" not in prompt
    assert '"type"' not in prompt
    assert "18C" in prompt
    joined = "Hellothere" if model == "qwen3.5" else "Hello\nthere"
    # mistral-spm's template has no system role and drops the text beside a call.
    assert prompt.count(joined) == (1 if model == "mistral-spm" else 2 if model == "llama3" else 3)


def test_g10_harmony_history(services: Services) -> None:
    service = services.get("gpt-oss", "openai", "openai_gptoss")
    answer = said("a", "assistant", reasoning="r", tool_calls=[])
    prompt = service.prompt(RENDER_CHAT, chat(said("q"), answer, said("q2")))
    assert "<|start|>assistant<|channel|>final<|message|>a<|end|>" in prompt
    spelled = '{"a": "x\\"y"}'
    assert f"<|message|>{spelled}<|call|>" in service.prompt(RENDER_CHAT, conversation(called(spelled)))
    thinking = service.prompt(RENDER_CHAT, conversation(called(spelled, reasoning="because")))
    assert "<|channel|>analysis<|message|>because<|end|>" in thinking


def test_g11_an_assistant_that_said_nothing(services: Services) -> None:
    """Rendered by a template. vLLM's own: mistral-common refuses it, with a 400."""
    body = chat(said("A"), said("", "assistant"), said("B"))
    for model in ("qwen3", "mistral-spm"):
        assert "B" in services.get(model).prompt(RENDER_CHAT, body)
    message = services.get("mistral-tekken").error(RENDER_CHAT, body)
    assert message.startswith("Assistant message must have either content or tool_calls")
