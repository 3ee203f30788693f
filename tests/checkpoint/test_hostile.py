"""Checkpoints that no parser made: refused, or restored into a parser that behaves, always within bounds."""

from __future__ import annotations

import random
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from core.parsing.checkpoint import InvalidCheckpoint, Limits, pack, unpack
from core.parsing.checkpoint.kinds import MAX_CALLS
from core.upstream.v0_33.harmony import _FIRST_HEADER, MAX_HEADER
from tests.checkpoint.carrying import restore, snapshot
from tests.checkpoint.setups import PAIRS, Deployments, Pair, healthy
from tests.checkpoint.streams import Chunk, Setup

LIMITS = Limits(256 * 1024)
# What is put in the place of a value, and of a container's items.
STRANGE: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1,
    2,
    7,
    255,
    MAX_CALLS,
    MAX_CALLS + 1,
    10**9,
    2**53,
    2**53 + 1,
    -(10**9),
    10**30,
    1.5,
    float("inf"),
    float("nan"),
    "",
    "a",
    "<tool_call>",
    '{"name": "x", "arguments": {"a": "',
    "\ud800",
    "<" * 3000,
    [],
    [1],
    [[]],
    ["a", 1, None],
    [0] * 2000,
    {},
    {"a": 1},
    {"name": None, "arguments": [1]},
    [{"finished": 3}],
)


class TooLongError(Exception):
    pass


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Interrupt what takes longer."""

    def interrupt(_signal: int, _frame: object) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def run(setup: Setup, packed: str, rest: list[Chunk], seconds: float = 10) -> bool:
    """Whether the checkpoint was accepted; goes on with the stream for a few chunks if so."""
    processor = setup.processor()
    with within(seconds):
        try:
            restore(processor, unpack(packed, LIMITS))
        except InvalidCheckpoint:
            return False
        for chunk in rest[:4]:
            try:
                processor.step(chunk.text, list(chunk.ids), chunk.finish_reason, None)
            except TooLongError:
                raise
            except Exception:
                # The caller answers with a client error.
                break
    return True


def memory() -> int:
    """The most memory that this process had so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def middle_of_stream(deployments: Deployments, pair: Pair, rng: random.Random) -> tuple[Setup, list[Any], list[Chunk]]:
    def middle() -> tuple[Setup, list[Any], list[Chunk]]:
        setup, stream, prompt = deployments.stream(pair, rng, mutated=False)
        processor = setup.processor()
        stop = rng.randrange(1, len(stream)) if len(stream) > 1 else 1
        for chunk in stream[:stop]:
            processor.step(chunk.text, list(chunk.ids), None, prompt)
        return setup, snapshot(processor), [*stream[stop:], Chunk("x", [1], "stop")]

    return healthy(middle)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values in ``value``."""
    found = [path] if path else []
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in pairs:
        found += places(item, (*path, key))
    return found


def changed(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy of ``data`` with another value at ``path``."""
    if not path:
        return value
    copy: Any = data.copy()
    copy[path[0]] = changed(data[path[0]], path[1:], value)
    return copy


@pytest.mark.parametrize("pair", PAIRS)
def test_data_with_strange_values(deployments: Deployments, pair: Pair, runs: Callable[[int], int]) -> None:
    rng = random.Random(f"{pair}")
    before = memory()
    accepted = 0
    for _ in range(runs(2)):
        setup, data, rest = middle_of_stream(deployments, pair, rng)
        everywhere = places(data)
        for _ in range(25):
            strange = data
            for path in rng.sample(everywhere, min(rng.choice((1, 1, 2, 4)), len(everywhere))):
                try:
                    strange = changed(strange, path, rng.choice(STRANGE))
                except (LookupError, TypeError, AttributeError):
                    # An earlier change took the place away.
                    continue
            accepted += run(setup, pack(strange), rest)
    assert accepted < runs(50), "nothing was refused"
    assert memory() - before < 200


@pytest.mark.parametrize("pair", PAIRS[::6])
def test_data_of_another_length(deployments: Deployments, pair: Pair) -> None:
    rng = random.Random(2)
    setup, data, rest = middle_of_stream(deployments, pair, rng)
    for _ in range(10):
        at = rng.randrange(len(data))
        shorter = data[:at] + data[at + 1 :]
        assert not run(setup, pack(shorter), rest)
        longer = [*data[:at], rng.choice(STRANGE), *data[at:]]
        assert not run(setup, pack(longer), rest)
    assert not run(setup, pack([2, *data[1:]]), rest)
    assert not run(setup, pack([]), rest)


@pytest.mark.parametrize("pair", PAIRS[::3])
def test_damaged_text(deployments: Deployments, pair: Pair, runs: Callable[[int], int]) -> None:
    rng = random.Random(f"{pair} damaged")
    setup, data, rest = middle_of_stream(deployments, pair, rng)
    packed = pack(data)
    alphabet = "ABCxyz019-_+/=. \u00e9\n"
    for _ in range(runs(30)):
        text = list(packed)
        for _ in range(rng.choice((1, 1, 2, 8))):
            at = rng.randrange(len(text))
            match rng.randrange(4):
                case 0:
                    text[at] = rng.choice(alphabet)
                case 1:
                    del text[at : at + rng.randint(1, 20)]
                case 2:
                    text.insert(at, rng.choice(alphabet))
                case _:
                    text = text[: at + 1]
            if not text:
                break
        run(setup, "".join(text), rest)


def test_data_of_another_parser(deployments: Deployments) -> None:
    rng = random.Random(9)
    made = [middle_of_stream(deployments, pair, rng) for pair in PAIRS]
    for setup, _, rest in made[::4]:
        for _, data, _ in rng.sample(made, 12):
            run(setup, pack(data), rest)


def test_a_call_index_cannot_claim_memory(deployments: Deployments) -> None:
    setup = deployments.setup(("qwen3_coder", None))
    processor = setup.processor()
    engine = processor.parser._tool_parser._parser_engine._engine
    engine.tool_index = MAX_CALLS
    packed = pack(snapshot(processor))
    before = memory()
    assert run(setup, packed, [Chunk("<tool_call>\n<function=noop>\n", [], None)] * 3)
    assert memory() - before < 50


def test_a_harmony_header_cannot_claim_time(deployments: Deployments) -> None:
    setup = deployments.setup(("openai", "openai_gptoss"))
    data = snapshot(setup.processor())
    position = next(i for i, value in enumerate(data) if value == [0, [], 0])
    long = [_FIRST_HEADER, "a" * (MAX_HEADER + 1), MAX_HEADER + 1]
    assert not run(setup, pack(changed(data, (position,), long)), [])
    # At the limit: some tenths of a second.
    assert run(setup, pack(changed(data, (position,), [_FIRST_HEADER, "a" * MAX_HEADER, MAX_HEADER])), [])
