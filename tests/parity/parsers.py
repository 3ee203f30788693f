"""The slice against full vLLM: the same probe in both environments, one row a parser or pair.

The inputs and the comparison are those of ``tests/slice/parity``; nothing is
compared that the probe did not write.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infra.slice.versions import NEWEST
from tests.parity.reference import ROOT, Reference

PROBE = ROOT / "tests" / "slice" / "parity" / "probe.py"
PARSING = ("compose", "parse", "stream", "adjust", "responses")
_SECONDS = 3600
_BROKEN = ("ImportError", "ModuleNotFoundError", "AttributeError", "TypeError", "RuntimeError", "NameError")

NEVER_COMPOSED = frozenset({"beam", "hf", "cohere_command3", "cohere_command4"})
"""Parsers that want a response template in the tokenizer's configuration, or a package of Cohere's."""

Results = dict[str, Any]


@dataclass
class Row:
    """The cases of one parser, pair or part: how many, how many of them errors on full vLLM's side, which differ."""

    title: str
    cases: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    errors: int = 0
    different: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    """Cases in which both sides fail alike, with an error that no parser gives an output: the comparison is broken."""


def probe(python: str, environ: dict[str, str], models: Path, out: Path, sample: bool) -> None:
    """Run the probe with one Python and write ``out`` (.jsonl.gz).

    Raises:
        subprocess.CalledProcessError, subprocess.TimeoutExpired: the probe itself failed.
    """
    command = [python, str(PROBE), "--models", str(models), "--out", str(out)]
    subprocess.run(command + ["--sample"] * sample, check=True, timeout=_SECONDS, env=environ, cwd=ROOT)


def probe_both(
    reference: Reference, version: str, models: Path, out: Path, sample: bool, full: Path | None
) -> tuple[Path, Path]:
    """The results of full vLLM and of the slice; with ``full`` those of full vLLM are from an earlier run."""
    slice_results = out / "slice.jsonl.gz"
    if full is None:
        full = out / "full.jsonl.gz"
        probe(reference.python, reference.environ(), models, full, sample)
    probe(sys.executable, slice_environ(version), models, slice_results, sample)
    return full, slice_results


def slice_environ(version: str) -> dict[str, str]:
    """The environment variables of a process that runs with the slice of one version."""
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if version == NEWEST:
        return own
    folder = ROOT / "build" / "slices" / version
    if not folder.is_dir():
        raise FileNotFoundError(f"no slice at {folder}: `make slices` builds it")
    return {**own, "PYTHONPATH": str(folder)}


def rows(full: Results, ours: Results) -> list[Row]:
    """One row a parser or pair, and one each for rendering, harmony and the protocol types."""
    found: dict[str, Row] = {}
    for name in dict.fromkeys([*full, *ours]):
        part, title = _place(name)
        row = found.setdefault(title, Row(title))
        row.cases[part] += 1
        result = full.get(name)
        row.errors += isinstance(result, dict) and "error" in result
        if part != "compose" and (_is_broken(result) or _is_broken(ours.get(name))):
            row.broken.append(name)
        if name not in full or name not in ours or full[name] != ours[name]:
            row.different.append(name)
    return sorted(found.values(), key=lambda row: ("(" in row.title, row.title))


def _is_broken(result: Any) -> bool:
    """Whether something in a result is an error of code that does not fit together."""
    if isinstance(result, list):
        return any(_is_broken(item) for item in result)
    if not isinstance(result, dict):
        return False
    error = result.get("error")
    if len(result) == 1 and isinstance(error, str):
        return error.startswith(_BROKEN)
    return any(_is_broken(value) for value in result.values())


def composed_nowhere(full: Results) -> list[str]:
    """The parsers that full vLLM composes with no model folder, without those that need what no folder has."""
    composed: dict[str, bool] = {}
    for name, result in full.items():
        if not name.startswith("compose "):
            continue
        tool, reasoning = name.split()[1].split("|")
        if "None" in (tool, reasoning):
            title = tool if reasoning == "None" else f"(reasoning) {reasoning}"
            composed[title] = composed.get(title, False) or isinstance(result, list)
    return sorted(title for title, found in composed.items() if not found and title.split()[-1] not in NEVER_COMPOSED)


def _place(name: str) -> tuple[str, str]:
    """(part, row) of a case: the second word of its name is the pair, in a stream's the fourth."""
    words = name.split()
    if words[0] not in PARSING:
        return words[0], f"({words[0]})"
    tool, reasoning = words[3 if words[0] == "stream" else 1].split("|")
    if reasoning == "None":
        return words[0], tool
    return words[0], f"(reasoning) {reasoning}" if tool == "None" else f"{tool} + {reasoning}"


def table(found: Iterable[Row]) -> list[str]:
    """The rows as a Markdown table; cases count every result, refusals (errors on both sides alike) included."""
    lines = ["| parser | compose | whole | streamed | adjusted | Responses | other | refused | different |"]
    lines.append("|---|---|---|---|---|---|---|---|---|")
    for row in found:
        other = sum(count for part, count in row.cases.items() if part not in PARSING)
        counts = [*(row.cases[part] for part in PARSING), other, row.errors, len(row.different)]
        lines.append(f"| {row.title} | " + " | ".join(f"{count:,}" for count in counts) + " |")
    return lines
