"""A text with far more tokens than the context is not tokenized whole, whatever the request wants of it."""

from __future__ import annotations

from typing import Any

import pytest

from core.errors import BadRequest
from core.render import length
from core.render.chat import render_chat
from core.render.completions import render_completion
from core.render.length import check_length
from core.render.tokenize import tokenize
from tests.render.conftest import ModelOf, chat

CONTEXT = 512
# Qwen3's tokenizer makes a token of each digit; its longest token has 128 characters, which is vLLM's bound.
REFUSED = r"1024 tokens, twice the context of 512|maximum context length"
DIGITS = "7" * (400_000)


class Counted:
    """A tokenizer that counts the characters that it is given."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.characters = 0

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        self.characters += len(text)
        found: list[int] = self._inner.encode(text, add_special_tokens=add_special_tokens)
        return found


@pytest.mark.parametrize("fields", [{}, {"truncate_prompt_tokens": 10}])
def test_a_prompt_of_digits(model_of: ModelOf, fields: dict[str, Any]) -> None:
    model = model_of("qwen3", max_model_len=CONTEXT)
    with pytest.raises(BadRequest, match=REFUSED):
        render_completion(model, {"model": "qwen3", "prompt": DIGITS, **fields})
    with pytest.raises(BadRequest, match=REFUSED):
        render_chat(model, chat(DIGITS, **fields))


def test_tokenize_of_digits(model_of: ModelOf) -> None:
    model = model_of("qwen3", max_model_len=CONTEXT)
    with pytest.raises(BadRequest, match="1024 tokens, twice the context of 512"):
        tokenize(model, {"prompt": DIGITS})


def test_a_long_text_of_few_tokens_is_tokenized(model_of: ModelOf) -> None:
    model = model_of("qwen3", max_model_len=2 * CONTEXT)
    assert 1000 < tokenize(model, {"prompt": " " * 131_200})["count"] < 1050


def test_no_more_is_tokenized_than_tells(model_of: ModelOf) -> None:
    tokenizer = Counted(model_of("qwen3").tokenizer)
    with pytest.raises(BadRequest):
        check_length(tokenizer, "7" * 10_000_000, CONTEXT)  # type: ignore[arg-type]
    assert tokenizer.characters == length._PIECE
    check_length(tokenizer, "7" * 131_072, CONTEXT)  # type: ignore[arg-type]
    assert tokenizer.characters == length._PIECE, "an ordinary text is not looked at"


def test_a_long_context_is_no_reason_to_tokenize_any_text(model_of: ModelOf) -> None:
    tokenizer = Counted(model_of("qwen3").tokenizer)
    check_length(tokenizer, "7" * length._MOST_CHARS, 2**30)  # type: ignore[arg-type]
    assert not tokenizer.characters
    with pytest.raises(BadRequest):
        check_length(tokenizer, "7" * (length._MOST_CHARS + 1), 2**20 - 1)  # type: ignore[arg-type]
