"""Saving a live parser as plain data, and bringing a fresh one to where it was."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from core.json import JsonValue
from core.parsing.checkpoint.errors import CheckpointRefused, InvalidCheckpoint
from core.parsing.checkpoint.layout import Layout, Layouts, apply, changes_of, load, save

Plain: TypeAlias = list[JsonValue]
"""A snapshot: JSON values only."""

# Raised whenever the meaning of the data changes: data of another version is refused.
VERSION = 1


def check_supported(parser: Any, layouts: Layouts) -> None:
    """Whether streams through ``parser`` can be carried by checkpoints. Cheap, and true or false for a whole stream.

    Raises:
        CheckpointRefused: they cannot; says why.
    """
    _check(layouts.walk(parser))


def _check(tree: Iterable[tuple[Any, Layout]]) -> None:
    for part, layout in tree:
        for refused in layout.refusals:
            if reason := refused(part):
                raise CheckpointRefused(reason)


def snapshot(processor: Any, layouts: Layouts) -> Plain:
    """The state of a ``ChatStreamProcessor`` and its parser between two chunks. Changes nothing.

    What the data stands for depends on the request and the deployment: it can
    be restored only into a processor built for the same ones.

    Raises:
        CheckpointRefused: the parser cannot be carried (see :func:`check_supported`), or holds something unknown.
    """
    return moment(processor, layouts).data


class Moment(NamedTuple):
    """A snapshot, and how a parser that is kept itself comes to hold no more than it."""

    data: Plain
    settle: Callable[[], None]


def moment(processor: Any, layouts: Layouts) -> Moment:
    """As :func:`snapshot`. ``settle`` brings the live parser to where a restored one would be.

    What a snapshot leaves out would grow in a parser that lives on, and with it the cost of its steps.

    Raises:
        CheckpointRefused: as :func:`snapshot` does.
    """
    request = processor.request
    tree = list(layouts.walk(processor.parser))
    _check(tree)
    try:
        changes = changes_of(tree, request, layouts)
        saved = save(tree, request, changes)
    except RecursionError as exc:
        raise CheckpointRefused("the parser holds data that is nested too deeply") from exc
    data = [VERSION, int(processor.num_output_tokens > 0), int(processor.tools_streamed), *saved]
    return Moment(data, lambda: apply(tree, changes))


def restore(processor: Any, data: Plain, layouts: Layouts) -> None:
    """Bring a fresh ``ChatStreamProcessor`` to where the one of the snapshot was.

    ``data`` may come from a client: it sets only known state to values of
    known kinds, and costs no more than its size. Only the first step of a
    stream looks at the prompt: later ones need no ``prompt_token_ids``.

    Raises:
        InvalidCheckpoint: ``data`` does not fit; the processor must not be used any more.
    """
    if type(data) is not list or len(data) < 3 or type(data[0]) is not int:
        raise InvalidCheckpoint("it is not a snapshot")
    if data[0] != VERSION:
        raise InvalidCheckpoint("it was made by another version")
    if any(type(flag) is not int or not 0 <= flag <= 1 for flag in data[1:3]):
        raise InvalidCheckpoint("its flags must be 0 or 1")
    load(layouts, processor.parser, processor.request, data[3:])
    # Only whether there was any output is ever asked.
    processor.num_output_tokens = data[1]
    processor.tools_streamed = data[2] == 1


def read_prompt(processor: Any, prompt_token_ids: Sequence[int], layouts: Layouts) -> None:
    """Do what a parser's first step does about the prompt, without any output.

    For a first chunk that has no tokens: what the prompt decides is then in the
    snapshot, and the caller need not keep it. Parsers that never look at the
    prompt (harmony) are left as they are.

    Raises:
        CheckpointRefused: the parser's class is not known.
    """
    prompt = layouts.of(type(processor.parser)).prompt
    if prompt is not None:
        prompt(processor, list(prompt_token_ids))
