"""The suite, in both settings of ``answers``: what vLLM's reading passes, and what repaired answers do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance import suite
from tests.conformance.expected import MODES, REASONS, VLLM
from tests.conformance.folders import make_folders
from tests.conformance.reading import Reader

by_family = pytest.mark.parametrize(
    "family", [pytest.param(family, marks=pytest.mark.xdist_group(f"conformance-{family}")) for family in VLLM]
)


@pytest.fixture(scope="session")
def made(models_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("conformance")
    make_folders(models_dir, folder)
    return folder


def failing(models_dir: Path, made: Path, family: str, answers: str) -> dict[str, set[str]]:
    """By mode the outputs that fail; those that pass but for white space do not."""
    chosen = [fixture for fixture in suite.fixtures() if fixture.family == family]
    assert len(chosen) == VLLM[family][0]
    found: dict[str, set[str]] = {mode: set() for mode in MODES}
    for row in suite.run(Reader(models_dir, made, answers=answers), chosen):
        if row.status not in ("pass", "soft_pass"):
            found[row.mode].add(row.fixture)
    return found


@by_family
def test_what_vllms_reading_passes(models_dir: Path, made: Path, family: str) -> None:
    size, *passing = VLLM[family]
    found = failing(models_dir, made, family, "vllm")
    assert [size - len(found[mode]) for mode in MODES] == passing


@by_family
def test_what_repaired_answers_do_not_pass_has_a_reason(models_dir: Path, made: Path, family: str) -> None:
    expected = {fixture for fixture in REASONS if fixture.startswith(f"{family}/")}
    assert failing(models_dir, made, family, "repaired") == dict.fromkeys(MODES, expected)


def test_the_sums() -> None:
    assert [sum(row[place] for row in VLLM.values()) for place in range(6)] == [469, 417, 409, 404, 400, 373]
    assert 469 - len(REASONS) >= 440
