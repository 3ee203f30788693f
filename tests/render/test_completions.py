"""Completions rendering: forms of a prompt, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from core.errors import BadRequest, ModelNotFound, SchemaError
from core.render.completions import render_completion
from tests.render.conftest import ModelOf


@pytest.mark.parametrize(
    ("prompt", "ids"),
    [
        ("The quick", [[785, 3974]]),
        (["The quick", "The"], [[785, 3974], [785]]),
        ([5, 6, 7], [[5, 6, 7]]),
        ([[5, 6], [7]], [[5, 6], [7]]),
        ([True, 2], [[1, 2]]),
    ],
)
def test_every_form_of_a_prompt(model_of: ModelOf, prompt: Any, ids: list[list[int]]) -> None:
    rendered = render_completion(model_of("qwen3"), {"prompt": prompt}, "r")
    assert [one["token_ids"] for one in rendered] == ids
    expected = ["cmpl-r"] if len(ids) == 1 else [f"cmpl-r-{i}" for i in range(len(ids))]
    assert [one["request_id"] for one in rendered] == expected


def test_special_tokens_are_added_unless_told_otherwise(model_of: ModelOf) -> None:
    model = model_of("mistral-spm")
    (with_bos,) = render_completion(model, {"prompt": "Hi"})
    (without,) = render_completion(model, {"prompt": "Hi", "add_special_tokens": False})
    assert with_bos["token_ids"] == [model.tokenizer.bos_token_id, *without["token_ids"]]


def test_ids_are_not_checked_against_the_vocabulary(model_of: ModelOf) -> None:
    assert render_completion(model_of("qwen3"), {"prompt": [10**9]})[0]["token_ids"] == [10**9]
    with pytest.raises(BadRequest, match="number too large to fit in target type"):
        render_completion(model_of("qwen3"), {"prompt": [2**40], "echo": True})


@pytest.mark.parametrize(
    ("fields", "message", "param"),
    [
        ({"prompt": []}, "You must pass at least one prompt", "prompt"),
        ({"prompt": ""}, "Either prompt or prompt_embeds must be provided and non-empty", "prompt"),
        ({"prompt": [[]]}, "No token_ids rendered", None),
        ({"prompt": "x", "suffix": "y"}, "suffix is only supported for models with FIM", "suffix"),
        ({"prompt": ["x"], "suffix": "y", "echo": True}, "Echo is unsupported with suffix.", "suffix"),
        ({"prompt": "x", "suffix": "y", "truncate_prompt_tokens": 1}, "not supported with truncate_prompt", "suffix"),
        ({"prompt": [1], "suffix": "y"}, "suffix requires text prompt input", "suffix"),
        ({"prompt": "x", "prompt_embeds": "AAAA"}, "You must set `--enable-prompt-embeds`", "prompt_embeds"),
        ({"prompt": "x", "prompt_embeds": "AAAA", "echo": True}, "Echo is unsupported with prompt embeds.", None),
        ({"prompt": "x", "use_beam_search": True}, "Beam search is not supported", None),
        ({"prompt": "x", "max_tokens": -1}, "max_tokens must be at least 1, got -1.", "max_tokens"),
        ({"prompt": "x", "n": 3, "temperature": 0}, "n must be 1 when using greedy sampling, got 3.", None),
        ({"prompt": "x", "mm_processor_kwargs": {"a": 1}}, "mm_processor_kwargs are disabled", "mm_processor_kwargs"),
    ],
)
def test_refusals(model_of: ModelOf, fields: dict[str, Any], message: str, param: str | None) -> None:
    with pytest.raises(BadRequest) as caught:
        render_completion(model_of("qwen3"), fields)
    assert message in caught.value.message
    assert (caught.value.param, caught.value.type) == (param, "BadRequestError")


def test_an_unknown_model_is_refused(model_of: ModelOf) -> None:
    with pytest.raises(ModelNotFound):
        render_completion(model_of("qwen3"), {"prompt": "x", "model": "other"})


def test_too_many_prompts_are_refused(model_of: ModelOf) -> None:
    with pytest.raises(BadRequest, match="prompt list length 1025 exceeds the maximum allowed count of 1024"):
        render_completion(model_of("qwen3"), {"prompt": ["x"] * 1025})


def test_cheap_refusals_come_before_any_tokenizing(model_of: ModelOf) -> None:
    model = model_of("qwen3", max_model_len=16)
    too_many_tokens, too_many_characters = "a b " * 20, "x" * (16 * model.tokenizer.max_chars_per_token + 1)
    with pytest.raises(BadRequest) as caught:
        render_completion(model, {"prompt": [too_many_tokens, too_many_characters]})
    assert caught.value.param == "input_text"


def test_mixed_prompts_are_no_prompt(model_of: ModelOf) -> None:
    with pytest.raises(SchemaError) as caught:
        render_completion(model_of("qwen3"), {"prompt": ["a", 5]})
    assert caught.value.param == "body.prompt.0"


def test_logprobs_of_an_echo(model_of: ModelOf) -> None:
    (rendered,) = render_completion(model_of("qwen3"), {"prompt": "x y", "echo": True, "max_tokens": 0, "logprobs": 1})
    params = rendered["sampling_params"]
    assert (params["max_tokens"], params["logprobs"], params["prompt_logprobs"]) == (1, 1, 1)
