"""Running one stream in the ways that must agree: uninterrupted, from checkpoint to checkpoint, waiting, replayed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from core.parsing.checkpoint import Limits, pack, unpack
from tests.checkpoint.carrying import moment, restore, snapshot
from tests.checkpoint.streams import Chunk, Setup

LIMITS = Limits()
# Ids of calls are drawn at random: the same call has another id in every run.
_RANDOM_ID = re.compile(r"[0-9a-f]{16,32}|(?<='id': ')[A-Za-z0-9]{9}(?=')")


def step(processor: Any, chunk: Chunk, prompt: list[int] | None) -> str:
    """What a step answers, or the exception that it raises, comparable between runs."""
    try:
        delta, finish_reason = processor.step(chunk.text, list(chunk.ids), chunk.finish_reason, prompt)
    except Exception as exc:
        return f"{type(exc).__name__}: {exc}"
    shown = None if delta is None else delta.model_dump(exclude_unset=True)
    return _RANDOM_ID.sub("ID", repr((shown, finish_reason, processor.tools_streamed)))


def without_ids(checkpoint: str) -> str:
    """What a checkpoint holds, comparable between runs."""
    return _RANDOM_ID.sub("ID", repr(unpack(checkpoint, LIMITS)))


def uninterrupted(setup: Setup, stream: Sequence[Chunk], prompt: list[int]) -> list[str]:
    processor = setup.processor()
    answers = []
    for chunk in stream:
        answers.append(step(processor, chunk, prompt))
        if answers[-1].partition(":")[0].endswith("Error"):
            break
    return answers


def checkpointed(setup: Setup, stream: Sequence[Chunk], prompt: list[int]) -> tuple[list[str], list[str]]:
    """Answers and checkpoints: every chunk meets a fresh processor, and only the first one the prompt."""
    answers: list[str] = []
    checkpoints: list[str] = []
    for chunk in stream:
        processor = setup.processor()
        if checkpoints:
            restore(processor, unpack(checkpoints[-1], LIMITS))
        answers.append(step(processor, chunk, None if checkpoints else prompt))
        if answers[-1].partition(":")[0].endswith("Error"):
            break
        checkpoints.append(pack(snapshot(processor)))
    return answers, checkpoints


def waited(setup: Setup, stream: Sequence[Chunk], prompt: list[int]) -> tuple[list[str], list[str]]:
    """As :func:`checkpointed`, by one processor that waits between the chunks, settled to its checkpoint."""
    processor = setup.processor()
    answers: list[str] = []
    checkpoints: list[str] = []
    for chunk in stream:
        answers.append(step(processor, chunk, None if checkpoints else prompt))
        if answers[-1].partition(":")[0].endswith("Error"):
            break
        now = moment(processor)
        checkpoints.append(pack(now.data))
        now.settle()
    return answers, checkpoints


def replayed(setup: Setup, stream: Sequence[Chunk], prompt: list[int], position: int) -> str:
    """The answer to one chunk, as vLLM's server finds it: all earlier chunks are parsed again, unfinished."""
    processor = setup.processor()
    for chunk in stream[:position]:
        processor.step(chunk.text, list(chunk.ids), None, prompt)
    processor.tools_streamed = "True)" in uninterrupted(setup, stream[:position], prompt)[-1:][0] if position else False
    return step(processor, stream[position], prompt)
