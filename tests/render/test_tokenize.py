"""``/tokenize``: texts and conversations."""

from __future__ import annotations

import pytest

from core.errors import BadRequest, ModelNotFound, SchemaError
from core.render.chat import render_chat
from core.render.tokenize import tokenize
from tests.render.conftest import HERMES, WEATHER, ModelOf, chat


def test_a_text(model_of: ModelOf) -> None:
    model = model_of("qwen3", max_model_len=16)
    answer = tokenize(model, {"prompt": "The quick", "return_token_strs": True})
    expected = {"count": 2, "max_model_len": 16, "tokens": [785, 3974], "token_strs": ["The", "Ġquick"]}
    assert answer == expected
    assert tokenize(model, {"prompt": "The quick"})["token_strs"] is None
    assert tokenize(model, {"prompt": "a b " * 100})["count"] > 100
    assert tokenize(model, {"prompt": ""}) == {"count": 0, "max_model_len": 16, "tokens": [], "token_strs": None}


def test_special_tokens(model_of: ModelOf) -> None:
    model = model_of("mistral-spm")
    bos = [model.tokenizer.bos_token_id]
    without = tokenize(model, {"prompt": "Hi", "add_special_tokens": False})["tokens"]
    assert tokenize(model, {"prompt": "Hi"})["tokens"] == bos + without
    # A chat template writes its own.
    in_chat = tokenize(model, chat("Hi"))["tokens"]
    assert in_chat[:1] == bos
    assert tokenize(model, chat("Hi", add_special_tokens=True))["tokens"] == bos + in_chat


def test_a_conversation_is_rendered_as_for_a_chat(model_of: ModelOf) -> None:
    for model in (model_of("qwen3"), model_of("qwen3", **HERMES)):
        assert tokenize(model, chat("Hi"))["tokens"] == render_chat(model, chat("Hi"))["token_ids"]
    parsed = model_of("qwen3", **HERMES)
    tools = {"tools": [WEATHER]}
    assert tokenize(parsed, chat("Hi", **tools))["tokens"] == render_chat(parsed, chat("Hi", **tools))["token_ids"]
    # Tools need no parser here: nothing will be parsed.
    assert tokenize(model_of("qwen3"), chat("Hi", **tools)) == tokenize(parsed, chat("Hi", **tools))


def test_refusals(model_of: ModelOf) -> None:
    model = model_of("qwen3")
    with pytest.raises(ModelNotFound):
        tokenize(model, {"prompt": "x", "model": "other"})
    with pytest.raises(SchemaError) as caught:
        tokenize(model, {"prompt": 5})
    assert caught.value.param == "body.prompt"
    with pytest.raises(BadRequest, match="Cannot set both `continue_final_message` and `add_generation_prompt`"):
        tokenize(model, chat(continue_final_message=True, add_generation_prompt=True))
