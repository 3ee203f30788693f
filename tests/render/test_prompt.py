"""Cutting and bounding prompts, offsets, and ids that a decode step brings along."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import BadRequest
from core.model import Model
from core.render.chat import render_chat
from core.render.completions import render_completion
from tests.render.conftest import HARMONY, HERMES, WEATHER, ModelOf, chat, prompt_text

TEXT = "The quick brown fox jumps over the lazy dog. नमस्ते दुनिया 🎉"


def one(model: Model, **fields: Any) -> dict[str, Any]:
    return render_completion(model, fields)[0]


@pytest.mark.parametrize(("side", "kept"), [(None, slice(-3, None)), ("left", slice(-3, None)), ("right", slice(0, 3))])
@pytest.mark.parametrize("as_ids", [False, True])
def test_truncation_keeps_the_asked_side(model_of: ModelOf, side: str | None, kept: slice, as_ids: bool) -> None:
    model = model_of("qwen3")
    ids = one(model, prompt=TEXT)["token_ids"]
    prompt = ids if as_ids else TEXT
    assert one(model, prompt=prompt, truncate_prompt_tokens=3, truncation_side=side)["token_ids"] == ids[kept]


def test_truncation_to_the_context_leaves_room_for_one_token(model_of: ModelOf) -> None:
    rendered = one(model_of("qwen3", max_model_len=16), prompt=TEXT * 3, truncate_prompt_tokens=-1)
    assert len(rendered["token_ids"]) == 15
    assert rendered["sampling_params"]["max_tokens"] == 1


@given(count=st.integers(1, 40), side=st.sampled_from(["left", "right", None]), special=st.booleans())
@settings(max_examples=60, deadline=None)
def test_offsets_point_at_the_text_of_their_tokens(model_of: ModelOf, count: int, side: str, special: bool) -> None:
    model = model_of("llama3")
    options = {"add_special_tokens": special, "return_token_offsets": True}
    options |= {"truncate_prompt_tokens": count, "truncation_side": side}
    rendered = one(model, prompt=TEXT, **options)
    assert len(rendered["token_offsets"]) == len(rendered["token_ids"]) <= count
    for token_id, (start, end) in zip(rendered["token_ids"], rendered["token_offsets"], strict=True):
        text = model.tokenizer.decode([token_id])
        if token_id == model.tokenizer.bos_token_id:
            assert (start, end) == (0, 0)
        elif "\ufffd" not in text:
            assert TEXT[start:end] == text


def test_offsets_count_from_the_start_of_a_text_that_was_cut_before_tokenizing(model_of: ModelOf) -> None:
    model = model_of("qwen3", max_model_len=16)
    longest = 16 * model.tokenizer.max_chars_per_token
    text = "x" * longest + " The end"
    options = {"truncate_prompt_tokens": 2, "truncation_side": "left", "return_token_offsets": True}
    rendered = one(model, prompt=text, max_tokens=1, **options)
    assert [text[start:end] for start, end in rendered["token_offsets"]] == [" The", " end"]


def test_offsets_of_a_chat_are_those_of_its_template_text(model_of: ModelOf) -> None:
    model = model_of("qwen3")
    rendered = render_chat(model, chat("Hi there", return_token_offsets=True))
    text = prompt_text(model, rendered)
    parts = [text[start:end] for start, end in rendered["token_offsets"]]
    assert parts == [model.tokenizer.decode([i]) for i in rendered["token_ids"]]


def test_ids_have_no_offsets(model_of: ModelOf) -> None:
    assert one(model_of("qwen3"), prompt=[1, 2], return_token_offsets=True)["token_offsets"] is None


def test_a_prompt_that_is_too_long_is_refused(model_of: ModelOf) -> None:
    model = model_of("qwen3", max_model_len=16)
    with pytest.raises(BadRequest, match="contains at least 17 input tokens") as caught:
        render_chat(model, chat("Hello there, " * 10))
    assert caught.value.param == "input_tokens"
    longest = 16 * model.tokenizer.max_chars_per_token
    with pytest.raises(BadRequest, match=f"contains {longest + 1} characters") as caught:
        one(model, prompt="x" * (longest + 1))
    assert caught.value.param == "input_text"
    assert one(model, prompt="x" * longest, truncate_prompt_tokens=4)["token_ids"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"truncate_prompt_tokens": 17}, "truncate_prompt_tokens"),
        ({"max_tokens": 17}, "max_tokens"),
        ({"max_completion_tokens": 17, "max_tokens": 3}, "max_completion_tokens"),
    ],
)
def test_nothing_may_be_longer_than_the_context(model_of: ModelOf, fields: dict[str, Any], param: str) -> None:
    with pytest.raises(BadRequest) as caught:
        render_chat(model_of("qwen3", max_model_len=16), chat("Hi", **fields))
    assert caught.value.param == param


# -- ids of the prefill step ------------------------------------------------------------------


@pytest.mark.parametrize(("name", "options"), [("qwen3", {}), ("qwen3", HERMES), ("gpt-oss", HARMONY)])
def test_ids_of_the_prefill_step_are_used_as_they_are(model_of: ModelOf, name: str, options: dict[str, Any]) -> None:
    model = model_of(name, **options)
    rendered = render_chat(model, chat(kv_transfer_params={"prompt_token_ids": [1, 2, 3], "remote": "x"}))
    assert rendered["token_ids"] == [1, 2, 3]
    assert rendered["kv_transfer_params"] == {"remote": "x"}
    alone = render_chat(model, chat(kv_transfer_params={"prompt_token_ids": [1, 2, 3]}))
    assert alone["kv_transfer_params"] is None


def test_reused_ids_do_not_switch_the_parser_off(model_of: ModelOf) -> None:
    body = chat(tools=[WEATHER], tool_choice="required", kv_transfer_params={"prompt_token_ids": [1]})
    rendered = render_chat(model_of("qwen3", **HERMES), body)
    assert rendered["sampling_params"]["structured_outputs"]


def test_an_echo_renders_the_messages_anyway(model_of: ModelOf) -> None:
    rendered = render_chat(model_of("qwen3"), chat(echo=True, kv_transfer_params={"prompt_token_ids": [1, 2, 3]}))
    assert len(rendered["token_ids"]) > 3
    assert rendered["kv_transfer_params"] is None


@pytest.mark.parametrize("ids", [[], [-1], [True], ["1"], "12", {"a": 1}, 5, [1.0]])
def test_reused_ids_must_be_ids(model_of: ModelOf, ids: Any) -> None:
    with pytest.raises(BadRequest, match="must be a non-empty list of non-negative integers") as caught:
        render_chat(model_of("qwen3"), chat(kv_transfer_params={"prompt_token_ids": ids}))
    assert caught.value.param == "kv_transfer_params.prompt_token_ids"


def test_reused_ids_must_be_in_the_vocabulary_of_the_engine_or_the_tokenizer(model_of: ModelOf) -> None:
    model = model_of("qwen3")
    largest = max(model.renderer.view.vocab_size - 1, model.tokenizer.max_token_id)
    assert largest == model.renderer.view.vocab_size - 1 > model.tokenizer.max_token_id
    body = chat(kv_transfer_params={"prompt_token_ids": [largest]})
    assert render_chat(model, body)["token_ids"] == [largest]
    with pytest.raises(BadRequest, match=f"Token id {largest + 1} is out of vocabulary"):
        render_chat(model, chat(kv_transfer_params={"prompt_token_ids": [largest + 1]}))
