"""Turning the engine's logprobs, which carry ids, into the OpenAI shapes, which carry text.

A token that is only part of a character decodes to U+FFFD by itself; it is
read again after up to four sampled tokens before it, and stands as the text
that it completes, or as nothing while the character is unfinished. The
recorded answers of ``tests/golden`` (group logprobs) hold the proof.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from core.protocol.engine import LogProb, LogProbs
from core.text.detokenizer import REPLACEMENT, TextTokenizer

CONTEXT_TOKENS = 4

Entry = dict[str, Any]


def chat_top_limit(logprobs: bool | None, top_logprobs: int | None, keep_all: bool) -> int | None:
    """How many candidates a chat response shows per position; None keeps what the engine sent.

    A request that did not ask for logprobs says nothing about the cut.
    """
    if not logprobs or keep_all or top_logprobs == -1:
        return None
    return top_logprobs or 0


def completion_top_limit(logprobs: int | None, keep_all: bool) -> int | None:
    """How many candidates a completion shows per position: ``logprobs`` and the sampled token."""
    if keep_all or logprobs is None or logprobs == -1:
        return None
    return max(logprobs + 1, 0)


def advance_context(context: Sequence[int], token_ids: Iterable[int]) -> list[int]:
    """The last sampled ids that the next chunk's repair may look back to."""
    return [*context, *token_ids][-CONTEXT_TOKENS:]


def chat_logprobs(
    logprobs: LogProbs, tokenizer: TextTokenizer, context: Sequence[int] = (), top_limit: int | None = None
) -> dict[str, Any]:
    """``{"content": [{token, logprob, bytes, top_logprobs}]}``; content None when the engine sent none.

    Raises:
        OverflowError: an id does not fit 32 bits.
    """
    if logprobs.content is None:
        return {"content": None}
    sampled = list(context)
    content = []
    for position in logprobs.content:
        kept = position.top_logprobs if top_limit is None else position.top_logprobs[:top_limit]
        entry = _entry(position, tokenizer, sampled)
        entry["top_logprobs"] = [_entry(candidate, tokenizer, sampled) for candidate in kept]
        content.append(entry)
        sampled.append(position.resolved_id)
        del sampled[:-CONTEXT_TOKENS]
    return {"content": content}


def completion_logprobs(resolved: dict[str, Any], source: LogProbs, text_offset: int = 0) -> dict[str, Any]:
    """The flat completion lists of what :func:`chat_logprobs` resolved from ``source``.

    ``text_offset`` is where the first token of this chunk begins in the whole
    text. A position for which the engine sent no candidates has None for its
    ``top_logprobs``.
    """
    flat: dict[str, Any] = {"text_offset": [], "token_logprobs": [], "tokens": [], "top_logprobs": []}
    for entry, position in zip(resolved["content"] or (), source.content or (), strict=True):
        flat["text_offset"].append(text_offset)
        flat["token_logprobs"].append(entry["logprob"])
        flat["tokens"].append(entry["token"])
        top = {t["token"]: t["logprob"] for t in entry["top_logprobs"]} if position.top_logprobs else None
        flat["top_logprobs"].append(top)
        text_offset += len(entry["token"])
    return flat


def end_of_text(flat: dict[str, Any] | None, start: int, new_text: str) -> int:
    """Where the next chunk's first token begins: after this chunk's tokens, or its text without logprobs."""
    if flat and flat["tokens"]:
        return int(flat["text_offset"][-1]) + len(flat["tokens"][-1])
    return start + len(new_text)


def _entry(candidate: LogProb, tokenizer: TextTokenizer, context: list[int]) -> Entry:
    token_id = candidate.resolved_id
    piece = tokenizer.id_to_token(token_id)
    if piece is None:
        return {"token": "", "logprob": candidate.logprob, "bytes": None}
    text = _restore_spaces(piece, tokenizer.decode([token_id]), tokenizer.space_marker)
    if text.endswith(REPLACEMENT):
        text = _repair(token_id, context, tokenizer)
    return {
        "token": text,
        "logprob": candidate.logprob,
        "bytes": list(text.encode("utf-8", errors="replace")),
    }


def _restore_spaces(piece: str, text: str, marker: str | None) -> str:
    """Put back the leading spaces that decoding a single SentencePiece token drops."""
    if marker is None:
        return text
    wanted = len(piece) - len(piece.lstrip(marker))
    return " " * (wanted - (len(text) - len(text.lstrip(" ")))) + text


def _repair(token_id: int, context: list[int], tokenizer: TextTokenizer) -> str:
    """What ``token_id`` adds after its context, when it completes a character; else nothing."""
    for reach in range(1, min(len(context), CONTEXT_TOKENS) + 1):
        before = context[-reach:]
        text = tokenizer.decode([*before, token_id])
        if text.endswith(REPLACEMENT):
            continue
        whole = len(before)
        while whole > 0 and tokenizer.decode([before[whole - 1]]).endswith(REPLACEMENT):
            whole -= 1
        prefix = tokenizer.decode(before[:whole]) if whole else ""
        shared = 0
        for a, b in zip(prefix, text, strict=False):
            if a != b:
                break
            shared += 1
        return text[shared:]
    return ""
