"""The suite run: how each of its outputs fares in each mode."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

from canitoolcall.adapters.base import ReplayInput
from canitoolcall.checks import check_expected_error, check_expected_match
from canitoolcall.fixtures import Family, Fixture, load_families, load_fixtures
from canitoolcall.results import Observation, ParseResult

from tests.conformance.expected import MODES
from tests.conformance.reading import Reader


class Row(NamedTuple):
    """One output in one mode; ``status`` is the suite's: pass, soft_pass (white space only) or fail."""

    fixture: str
    mode: str
    status: str
    detail: str | None
    got: ParseResult


@cache
def families() -> dict[str, Family]:
    return load_families()


@cache
def fixtures() -> list[Fixture]:
    return load_fixtures()


def run(reader: Reader, chosen: Sequence[Fixture], modes: Sequence[str] = tuple(MODES)) -> Iterator[Row]:
    """Read outputs in modes and hold them against what the suite expects."""
    for fixture in chosen:
        family = families()[fixture.family]
        raw = ReplayInput.from_fixture(fixture, family)
        for mode in modes:
            step: Any = MODES[mode]
            got = reader.whole(raw, fixture.tools) if step == 0 else reader.streamed(raw, fixture.tools, step)
            observed = Observation(nonstream=got, streams={})
            (found,) = [
                *check_expected_match(fixture, family, observed),
                *check_expected_error(fixture, family, observed),
            ]
            yield Row(fixture.id, mode, found.status.value, found.detail, got)
