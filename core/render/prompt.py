"""A prompt: the token ids for the engine, and how text and ids become one.

The order of the checks is vLLM's: a text that cannot fit is refused by its
length in characters, before it is tokenized; ids are cut, then counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from core.errors import BadRequest, LongWork
from core.render.conversation import Conversation
from core.render.length import check_length
from core.render.media import AS_ASKED, ImageHandling, PlacedImages
from core.render.renderer import Renderer
from core.render.writing import write_conversation
from core.tokenizer import Tokenizer
from core.upstream.conversations import has_non_text_content
from core.upstream.model_view import ModelView
from core.upstream.refusals import invalid

_KV_IDS = "kv_transfer_params.prompt_token_ids"
# Fast tokenizers give a special token that they add this span: it is at no place of the text.
_NOWHERE = (0, 0)


@dataclass(frozen=True)
class Prompt:
    """Token ids, and the (start, end) characters of each in the tokenized text when they were asked for.

    With ``images`` the ids are those of the images, too, and there are no offsets.
    ``text`` is what was tokenized, None where ids were written.
    """

    token_ids: list[int]
    offsets: list[tuple[int, int]] | None = None
    images: PlacedImages | None = None
    text: str | None = None


@dataclass(frozen=True)
class CheckedText:
    """A text that may be tokenized; ``cut`` characters were taken off its start."""

    text: str
    cut: int


class TurnEncoder(Protocol):
    """Encodes the text of a conversation of which the last turn's ids are known (``core.turns``)."""

    def encode(self, conversation: Conversation, text: str, params: Any) -> Prompt:
        """The prompt; raises as :func:`encode_conversation` does."""
        ...


def encode_conversation(
    renderer: Renderer,
    conversation: Conversation,
    images: ImageHandling = AS_ASKED,
    turn: TurnEncoder | None = None,
) -> Prompt:
    """The prompt of a conversation, the tokens of its images in it. ``turn`` encodes text that holds no image.

    Harmony's ids are neither cut nor counted here: vLLM ignores truncation for
    these models, and a prompt that is too long fails when its output is sized.

    Raises:
        Exception: of any kind, over what the request holds; see ``core.upstream.refusals``.
    """
    request, tokenizer = conversation.request, renderer.tokenizer
    if renderer.is_harmony:
        token_ids = reused_ids(request, renderer.view, tokenizer)
        written = write_conversation(renderer, conversation).prompt if token_ids is None else token_ids
        assert not isinstance(written, str)  # harmony has no text
        return Prompt(written)
    params = renderer.tokenize_params(request)
    token_ids = reused_ids(request, renderer.view, tokenizer, conversation.messages)
    if token_ids is not None:
        return Prompt(token_ids)
    rendered = write_conversation(renderer, conversation)
    if isinstance(rendered.prompt, str) and turn is not None and not rendered.images:
        return replace(turn.encode(conversation, rendered.prompt, params), text=rendered.prompt)
    if isinstance(rendered.prompt, str):
        prompt = tokenize_text(renderer, check_text(tokenizer, rendered.prompt, params), params)
        prompt = replace(prompt, text=rendered.prompt)
    else:
        prompt = check_ids(tokenizer, rendered.prompt, params)
    if not rendered.images:
        return prompt
    if renderer.options.short:
        raise LongWork
    assert renderer.images is not None  # else the messages' parts were refused
    placed = renderer.images.place(rendered.images, prompt.token_ids, images)
    return Prompt(placed.token_ids, images=placed, text=prompt.text)


def check_prompt(prompt: Prompt) -> None:
    """Refuse a prompt without a token.

    Raises:
        BadRequest: it has none.
    """
    if not prompt.token_ids:
        raise BadRequest("No token_ids rendered")


def check_text(tokenizer: Tokenizer, text: str, params: Any) -> CheckedText:
    """Bound a text by its characters, or cut it where the request asks for truncation.

    ``params`` are vLLM's ``TokenizeParams``. No token is longer than
    ``max_chars_per_token``, so that many times the context length is the
    longest text that can fit.

    Raises:
        VLLMValidationError: the text cannot fit.
    """
    kept = params.apply_pre_tokenization(tokenizer, {"prompt": text})["prompt"]
    return CheckedText(kept, len(text) - len(kept) if params.truncation_side == "left" else 0)


def tokenize_text(renderer: Renderer, checked: CheckedText, params: Any) -> Prompt:
    """The prompt of a text.

    Raises:
        VLLMValidationError: more tokens than the context length.
        BadRequest: so many more that it is not tokenized to count them.
    """
    tokenizer = renderer.tokenizer
    check_length(tokenizer, checked.text, renderer.limits.max_model_len)
    wanted = bool(params.return_token_offsets)
    token_ids, offsets = tokenizer.encode_prompt(checked.text, **params.get_encode_kwargs(), offsets=wanted)
    if offsets is None:
        return check_ids(tokenizer, token_ids, params)
    if checked.cut:
        offsets = [span if span == _NOWHERE else (span[0] + checked.cut, span[1] + checked.cut) for span in offsets]
    return check_ids(tokenizer, token_ids, params, offsets)


def check_ids(
    tokenizer: Tokenizer, token_ids: list[int], params: Any, offsets: list[tuple[int, int]] | None = None
) -> Prompt:
    """The prompt of some ids: cut as the request asks, then bounded.

    Raises:
        VLLMValidationError: more ids than the context length.
    """
    prompt = {"prompt_token_ids": token_ids, "prompt_token_offsets": offsets}
    kept = params.apply_post_tokenization(tokenizer, prompt)
    return Prompt(kept["prompt_token_ids"], kept["prompt_token_offsets"])


def reused_ids(
    request: Any, view: ModelView, tokenizer: Tokenizer, messages: Sequence[Any] | None = None
) -> list[int] | None:
    """The prompt ids that a decode step carries over from its prefill step, taken out of ``kv_transfer_params``.

    None when there are none, and when the messages must be rendered anyway:
    with ``echo``, or with parts of ``messages`` that are not text.

    Raises:
        BadRequest: they are not ids of this model.
    """
    transfer = getattr(request, "kv_transfer_params", None)
    if not isinstance(transfer, dict):
        return None
    token_ids = transfer.pop("prompt_token_ids", None)
    if token_ids is None or getattr(request, "echo", False) or has_non_text_content(messages):
        return None
    # True and False are ints, too.
    if not isinstance(token_ids, list) or not token_ids or any(type(i) is not int or i < 0 for i in token_ids):
        raise invalid(
            "`kv_transfer_params['prompt_token_ids']` must be a non-empty list of non-negative integers.", _KV_IDS
        )
    # The engine's vocabulary is often padded beyond the tokenizer's; some tokenizers have more than the engine.
    if max(token_ids) > max(tokenizer.max_token_id, view.vocab_size - 1):
        raise invalid(f"Token id {max(token_ids)} is out of vocabulary", _KV_IDS)
    return token_ids
