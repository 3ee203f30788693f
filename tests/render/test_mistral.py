"""Chats of Mistral models with a ``tekken.json``, which mistral-common renders."""

from __future__ import annotations

from typing import Any

import pytest

from core.errors import BadRequest
from core.render.chat import render_chat
from core.render.completions import render_completion
from core.render.tokenize import tokenize
from tests.render.conftest import WEATHER, ModelOf, chat, prompt_text

PARSER = {"tool_call_parser": "mistral", "enable_auto_tool_choice": True}


def test_a_conversation_with_a_tool(model_of: ModelOf) -> None:
    model = model_of("mistral-tekken", **PARSER)
    call = {"id": "call_1234567890", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": [{"type": "text", "text": "Weather?"}]},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1234567890", "content": "18C"},
    ]
    rendered = render_chat(model, {"messages": messages, "tools": [WEATHER]})
    text = prompt_text(model, rendered)
    assert text.startswith("<s>")
    assert "[AVAILABLE_TOOLS]" in text
    assert "[INST]Weather?[/INST]" in text
    # Mistral's models know the last nine characters of a call's id.
    assert '"234567890"' in text
    assert "call_1" not in text
    assert rendered["parse_context"]["history_tool_call_cnt"] == 1


def test_tool_choices_need_no_parser(model_of: ModelOf) -> None:
    assert render_chat(model_of("mistral-tekken"), chat(tools=[WEATHER], tool_choice="required"))["token_ids"]


def test_there_is_no_template_to_pass_anything_to(model_of: ModelOf) -> None:
    for fields in ({"chat_template": "x"}, {"chat_template_kwargs": {}}):
        with pytest.raises(BadRequest, match="chat_template is not supported for Mistral tokenizers"):
            render_chat(model_of("mistral-tekken"), chat(**fields))
    # /tokenize lets the arguments pass, as vLLM does.
    assert tokenize(model_of("mistral-tekken"), chat(chat_template_kwargs={"a": 1}))["tokens"]


def test_images_are_refused_before_anything_is_fetched(model_of: ModelOf) -> None:
    part = {"type": "image_url", "image_url": {"url": "http://169.254.169.254/"}}
    with pytest.raises(BadRequest, match="mistral-tekken is not a multimodal model"):
        render_chat(model_of("mistral-tekken"), chat([part]))


def test_cut_chats_and_missing_offsets(model_of: ModelOf) -> None:
    model = model_of("mistral-tekken")
    whole = render_chat(model, chat("Hello there"))["token_ids"]
    cut = render_chat(model, chat("Hello there", truncate_prompt_tokens=3, return_token_offsets=True))
    assert cut["token_ids"] == whole[-3:]
    assert cut["token_offsets"] is None


def test_completions_begin_with_the_beginning_of_sequence(model_of: ModelOf) -> None:
    model = model_of("mistral-tekken")
    (rendered,) = render_completion(model, {"prompt": "Hello there"})
    (bare,) = render_completion(model, {"prompt": "Hello there", "add_special_tokens": False})
    assert rendered["token_ids"] == [model.tokenizer.bos_token_id, *bare["token_ids"]]
