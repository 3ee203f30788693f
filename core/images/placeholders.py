"""Placeholders in a prompt: one token an image, as the chat template writes it, becomes as many as the image takes.

Source: ``vllm/multimodal/processing/processor.py`` of vLLM 0.33.0 (``_apply_prompt_updates``). Images and places are
matched in their order; a user who writes the placeholder into a text takes an image's place, in vLLM too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from core.errors import BadRequest

Span = tuple[int, int]


@dataclass(frozen=True)
class Expanded:
    """A prompt's ids with every image's tokens in them, and the (offset, length) of each image's."""

    token_ids: list[int]
    spans: list[Span]


@dataclass(frozen=True)
class Vocabulary:
    """What expansion asks of a tokenizer: ids of a text without special tokens around it, and a text of ids."""

    encode: Callable[[str], list[int]]
    decode: Callable[[Sequence[int]], str]


def expand(token_ids: list[int], target: list[int], contents: Sequence[list[int]]) -> Expanded | None:
    """Put each of ``contents`` in the place of one ``target``, from the left; None when there are too few of those."""
    out: list[int] = []
    spans: list[Span] = []
    read = 0
    for content in contents:
        place = find(token_ids, target, read)
        if place is None:
            return None
        out += token_ids[read:place]
        spans.append((len(out), len(content)))
        out += content
        read = place + len(target)
    out += token_ids[read:]
    return Expanded(out, spans)


def expand_text(
    token_ids: list[int], target: list[int], contents: Sequence[list[int]], vocabulary: Vocabulary
) -> Expanded:
    """As :func:`expand`, in the text of the prompt: a target of several tokens may be tokenized otherwise there.

    Raises:
        BadRequest: the prompt has too few places.
    """
    text, mark = vocabulary.decode(token_ids), vocabulary.decode(target)
    pieces = []
    read = 0
    for index, content in enumerate(contents):
        place = text.find(mark, read) if mark else -1
        if place < 0:
            raise no_place(index)
        pieces += [text[read:place], vocabulary.decode(content)]
        read = place + len(mark)
    ids = vocabulary.encode("".join([*pieces, text[read:]]))
    spans = find_all(ids, contents)
    if len(spans) < len(contents):
        raise no_place(len(spans))
    return Expanded(ids, spans)


def find_all(token_ids: list[int], contents: Sequence[list[int]]) -> list[Span]:
    """Where each of ``contents`` stands, one after another; stops at the first that is not there."""
    spans: list[Span] = []
    read = 0
    for content in contents:
        place = find(token_ids, content, read)
        if place is None:
            break
        spans.append((place, len(content)))
        read = place + len(content)
    return spans


def find(token_ids: list[int], target: list[int], start: int) -> int | None:
    """The first place of ``target`` at or after ``start``."""
    length = len(target)
    last = len(token_ids) - length
    while length and start <= last:
        try:
            start = token_ids.index(target[0], start, last + 1)
        except ValueError:
            return None
        if _stands_at(token_ids, target, start):
            return start
        start += 1
    return None


def _stands_at(token_ids: list[int], target: list[int], start: int) -> bool:
    # One by one, up to the first difference: slices would cost their length at every token that begins like the target.
    return all(token_ids[start + offset] == token for offset, token in enumerate(target))


def replace_all(token_ids: list[int], target: list[int], new: list[int]) -> list[int]:
    """Every occurrence of ``target`` replaced, from the left and without overlap."""
    out: list[int] = []
    read = 0
    while (place := find(token_ids, target, read)) is not None:
        out += token_ids[read:place] + new
        read = place + len(target)
    return out + token_ids[read:]


def check_spans(spans: Sequence[Span]) -> None:
    """Refuse placeholders that share a token, as vLLM's protocol does.

    Raises:
        BadRequest: two do.
    """
    ordered = sorted(spans)
    for (offset, length), (following, _) in pairwise(ordered):
        if following < offset + length:
            raise BadRequest("mm_placeholders must be globally non-overlapping and sorted")


def no_place(index: int) -> BadRequest:
    """The answer to a prompt in which an image has no place."""
    return BadRequest(
        f"Failed to apply prompt replacement for mm_items['image'][{index}]: "
        f"the chat template wrote no placeholder for it"
    )
