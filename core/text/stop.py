"""Cutting the stop token and the stop string off an output, as the engine does.

Rules (vLLM 0.33.0's derender and engine): the token that ended generation is
not text unless ``include_stop_str_in_output`` is set. It is the reported
integer ``stop_reason``; when nothing is reported it is recognised as the
model's end-of-sequence token (unless ``ignore_eos``) or one of the request's
``stop_token_ids``. A stop string counts only when it ends past the first
``min_tokens`` tokens, and the one that is complete first wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.text.stop_search import StopSearch

# Up to so many characters of strings each is looked for by itself: faster, and still a bound.
_FEW_CHARS = 256
StopReason = int | str | None


@dataclass(frozen=True)
class EosTokens:
    """The model's end-of-sequence tokens: the tokenizer's own, and all that its configurations name."""

    primary: int | None
    every: frozenset[int]


@dataclass(frozen=True)
class StopOptions:
    """What a request says about stopping; the defaults are those of a missing request."""

    strings: tuple[str, ...] = ()
    token_ids: frozenset[int] = frozenset()
    ignore_eos: bool = False
    include_in_output: bool = False
    min_tokens: int = 0


def stop_strings(stop: str | Sequence[str] | None) -> tuple[str, ...]:
    """A request's ``stop`` as a tuple; empty strings stop nothing."""
    if not stop:
        return ()
    return (stop,) if isinstance(stop, str) else tuple(s for s in stop if s)


def drop_stop_token(
    token_ids: Sequence[int],
    finish_reason: str | None,
    stop_reason: StopReason,
    options: StopOptions,
    eos: EosTokens,
) -> tuple[Sequence[int], StopReason]:
    """The ids to decode, and the stop reason completed where the engine did not report it."""
    if finish_reason != "stop" or isinstance(stop_reason, str) or not token_ids:
        return token_ids, stop_reason
    last = token_ids[-1]
    if stop_reason is not None:
        stopped = last == stop_reason
    elif last == eos.primary and not options.ignore_eos:
        stopped = True  # the usual end: reported as None
    else:
        stopped = last in options.token_ids or (last in eos.every and not options.ignore_eos)
        stop_reason = last if stopped else None
    if stopped and not options.include_in_output:
        return token_ids[:-1], stop_reason
    return token_ids, stop_reason


def strings_to_cut(finish_reason: str | None, reported: StopReason, options: StopOptions) -> tuple[str, ...]:
    """The stop strings that may have ended an output: the reported one, else the request's."""
    if finish_reason != "stop" or isinstance(reported, int):
        return ()
    if isinstance(reported, str):
        return (reported,) if reported else ()
    return options.strings


def cut_stop_string(
    text: str, searched: int, strings: Sequence[str], include_in_output: bool
) -> tuple[str, str | None]:
    """Cut ``text`` at the stop string that is complete first in its last ``searched`` characters.

    A match may begin before those characters, but must reach into them.
    Returns the text and the string that matched, or None. With ties the
    earlier one in the list wins.

    Raises:
        BadRequest: there are more strings than :class:`StopSearch` reads.
    """
    if searched <= 0:
        return text, None
    best = _first_of_few if sum(map(len, strings)) <= _FEW_CHARS or len(strings) == 1 else _first_of_many
    match = best(text, searched, strings)
    if match is None:
        return text, None
    end, string = match
    return text[: end if include_in_output else end - len(string)], string


def _first_of_few(text: str, searched: int, strings: Sequence[str]) -> tuple[int, str] | None:
    best: tuple[int, str] | None = None
    for string in strings:
        # As str.find with a negative start: clamped at the beginning of the text.
        at = text.find(string, max(len(text) + 1 - searched - len(string), 0))
        if at >= 0 and (best is None or at + len(string) < best[0]):
            best = (at + len(string), string)
    return best


def _first_of_many(text: str, searched: int, strings: Sequence[str]) -> tuple[int, str] | None:
    # Nothing that begins before this can reach into the searched characters.
    begin = max(len(text) - searched - max(map(len, strings)), 0)
    _, match = StopSearch(strings).feed(0, text[begin:], after=len(text) - searched - begin)
    return None if match is None else (begin + match[0], match[1])
