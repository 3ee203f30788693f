"""Chat templates: which one is used, what they see, and what happens when they fail."""

from __future__ import annotations

import json
from typing import Any

import pytest

from core.errors import BadRequest
from core.render.chat import render_chat
from core.render.tokenize import tokenize
from tests.render.conftest import WEATHER, FolderOf, ModelOf, chat, prompt_text
from tests.support.models import load

NAMED = {
    "chat_templates/default.jinja": "D {{ messages[0].content }}",
    "chat_templates/tool_use.jinja": "T {{ messages[0].content }}",
    "chat_templates/rag.jinja": "R {{ messages[0].content }}{% for d in documents or [] %} {{ d.title }}{% endfor %}",
    "chat_template.jinja": None,
}
DOCUMENTS = [{"title": "one", "text": "x"}, {"title": "two", "text": "y"}]


def text_of(folder: Any, body: dict[str, Any], **options: Any) -> str:
    model = load(folder, **options)
    return prompt_text(model, render_chat(model, body))


def test_named_templates(folder_of: FolderOf) -> None:
    folder = folder_of(NAMED)
    tools = {"tools": [WEATHER], "tool_choice": "none"}
    assert text_of(folder, chat("hi")) == "D hi"
    assert text_of(folder, chat("hi", **tools)) == "T hi"
    assert text_of(folder, chat("hi", chat_template="rag", **tools), trust_request_chat_template=True) == "R hi"
    assert text_of(folder, chat("hi", documents=DOCUMENTS), chat_template="rag") == "R hi one two"


def test_a_list_of_templates_in_the_tokenizer_configuration(folder_of: FolderOf) -> None:
    config = {"tokenizer_class": "Qwen2Tokenizer", "chat_template": [{"name": "other", "template": "O"}]}
    folder = folder_of({"chat_template.jinja": None, "tokenizer_config.json": json.dumps(config)})
    assert text_of(folder, chat(), chat_template="other") == "O"
    with pytest.raises(BadRequest, match="you must provide a chat template"):
        text_of(folder, chat())


def test_a_model_without_a_template_renders_completions_only(folder_of: FolderOf) -> None:
    folder = folder_of({"chat_template.jinja": None, "tokenizer_config.json": "{}"})
    with pytest.raises(BadRequest, match="you must provide a chat template if the tokenizer does not define one"):
        text_of(folder, chat())
    assert tokenize(load(folder), {"prompt": "The quick"})["tokens"] == [785, 3974]


@pytest.mark.parametrize("where", ["field", "argument"])
def test_a_template_of_the_request_needs_trust(model_of: ModelOf, where: str) -> None:
    given: dict[str, Any] = {"chat_template": "X {{ messages[0].content }}"}
    body = chat("hi", **(given if where == "field" else {"chat_template_kwargs": given}))
    for refuse in (render_chat, tokenize):
        with pytest.raises(BadRequest, match="--trust-request-chat-template is not set"):
            refuse(model_of("qwen3"), body)
    trusting = model_of("qwen3", trust_request_chat_template=True)
    if where == "field":
        assert prompt_text(trusting, render_chat(trusting, body)) == "X hi"
        assert trusting.tokenizer.decode(tokenize(trusting, body)["tokens"]) == "X hi"


def test_what_a_template_sees(folder_of: FolderOf) -> None:
    template = (
        "{{ eos_token }}|{{ messages[0].content }}|{{ tools }}|{{ documents[0].title }}|{{ mine }}|"
        "{{ add_generation_prompt }}|{{ strftime_now('%Y') | length }}|{{ {'é': '<'} | tojson }}"
    )
    folder = folder_of({"chat_template.jinja": template})
    body = chat("hi", documents=DOCUMENTS, chat_template_kwargs={"mine": 7, "unused": 1})
    assert text_of(folder, body) == '<|im_end|>|hi|None|one|7|True|4|{"é": "<"}'


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ messages[0].content }}", "one\ntwo"),
        ("{% for m in messages %}{% for c in m.content %}[{{ c.type }} {{ c.text }}]{% endfor %}{% endfor %}", None),
    ],
)
def test_the_content_format_is_read_off_the_template(folder_of: FolderOf, template: str, expected: str | None) -> None:
    folder = folder_of({"chat_template.jinja": template})
    body = chat([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}])
    assert text_of(folder, body) == (expected or "[text one][text two]")
    forced = text_of(folder, body, chat_template_content_format="openai" if expected else "string")
    assert forced != text_of(folder, body)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ raise_exception('No such role') }}", "No such role"),
        ("{% for m in messages %}", "Unexpected end of template"),
        ("{{ 1 / 0 }}", "division by zero"),
        ("{{ messages.nothing.more }}", "'list object' has no attribute 'nothing'"),
        ("{{ ''.__class__.__mro__ }}", "access to attribute '__class__' of 'str' object is unsafe"),
        ("{% set _ = messages.append(1) %}", "access to attribute 'append' of 'list' object is unsafe"),
        ("{% include 'other' %}", "no loader for this environment specified"),
        ("{% for i in range(10**9) %}{% endfor %}", "Range too big"),
        ("{{ strftime_now(5) }}", "must be str, not int"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "recursion"),
        ("{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}", "RecursionError"),
    ],
)
def test_a_template_that_fails_is_the_requests_fault(folder_of: FolderOf, template: str, message: str) -> None:
    with pytest.raises(BadRequest, match=message.replace("(", r"\(")):
        text_of(folder_of({"chat_template.jinja": template}), chat())


@pytest.mark.parametrize(
    "template",
    [
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% for i in range(99999) %}{% for j in range(99999) if j < 0 %}{% endfor %}{% endfor %}",
        "{% for i in [[1]] recursive %}{{ loop(range(99999)) if loop.depth < 9 }}{% endfor %}",
        "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(40) }}",
    ],
)
def test_a_template_of_the_request_cannot_loop_for_ever(model_of: ModelOf, template: str) -> None:
    trusting = model_of("qwen3", trust_request_chat_template=True)
    with pytest.raises(BadRequest, match="The chat template takes too many steps"):
        render_chat(trusting, chat(chat_template=template))


def test_a_request_may_send_the_deployments_own_template(model_of: ModelOf) -> None:
    trusting = model_of("qwen3", trust_request_chat_template=True)
    own = trusting.tokenizer.chat_template
    assert render_chat(trusting, chat(chat_template=own), "r") == render_chat(trusting, chat(), "r")


def test_a_limited_template_renders_as_an_unlimited_one(model_of: ModelOf) -> None:
    trusting = model_of("qwen3", trust_request_chat_template=True)
    own = trusting.tokenizer.chat_template
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "Why "}]
    for options in ({}, {"continue_final_message": True, "add_generation_prompt": False}, {"documents": DOCUMENTS}):
        body = {"messages": messages, **options}
        sent = render_chat(trusting, {**body, "chat_template": f"{own}{{# sent #}}"}, "r")
        assert sent == render_chat(trusting, body, "r")


@pytest.mark.parametrize(
    "arguments",
    [{"conversation": 1}, {"messages": []}, {"model_config": 1}, {"return_assistant_tokens_mask": True}],
)
def test_arguments_that_are_not_the_templates_are_refused(model_of: ModelOf, arguments: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        render_chat(model_of("qwen3"), chat(chat_template_kwargs=arguments))


def test_a_request_can_ask_for_the_templates_ids(model_of: ModelOf) -> None:
    model = model_of("qwen3")
    ids = render_chat(model, chat(chat_template_kwargs={"tokenize": True}))["token_ids"]
    assert ids == render_chat(model, chat())["token_ids"]
    with pytest.raises(BadRequest, match="padding, truncation and tensors are not supported"):
        render_chat(model, chat(chat_template_kwargs={"tokenize": True, "return_tensors": "pt"}))


def test_an_empty_conversation_is_refused(model_of: ModelOf) -> None:
    with pytest.raises(BadRequest, match="Cannot apply chat template to an empty conversation"):
        render_chat(model_of("qwen3"), {"messages": []})
