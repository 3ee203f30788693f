"""The slice against full vLLM: the same probe in both environments, one row a parser or pair.

The inputs and the comparison are those of ``tests/slice/parity``; nothing is
compared that the probe did not write. Agreement is not enough: what composes
nowhere, answers nowhere, or fails alike on both sides as broken code does, fails
the comparison.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.slice.parity.compare import first_difference

PARSING = ("compose", "parse", "stream", "adjust", "responses")
_BROKEN = frozenset({"ImportError", "ModuleNotFoundError", "AttributeError", "TypeError", "RuntimeError", "NameError"})
# What parsers raise when they are composed with a tokenizer that they cannot use.
_UNUSABLE = frozenset({"ValueError", "RuntimeError", "KeyError"})

NEVER_COMPOSED = frozenset({"beam", "hf", "cohere_command3", "cohere_command4"})
"""Parsers that want a response template in the tokenizer's configuration, or a package of Cohere's."""

OWN_FAULTS = {
    ("responses", "hy_v4"): "AttributeError: 'FunctionTool' object has no attribute 'function'",
    ("parse", "mistral"): "TypeError: string indices must be integers, not 'str'",
}
"""vLLM's own errors of code, by part and parser.

hy_v4 reads the tools of a Responses request as those of a chat. mistral of 0.31.0, where a call is required or named,
reads an output that is one object as a list of calls.
"""

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


@dataclass(frozen=True)
class Comparison:
    """Full vLLM's results and ours, and all that is wrong with them."""

    theirs: Results
    ours: Results
    rows: list[Row]
    composed_nowhere: list[str]
    answering_nowhere: list[str]

    @property
    def agrees(self) -> bool:
        """Whether there is something to compare, and nothing differs, fails alike or is left out."""
        wrong = self.composed_nowhere or self.answering_nowhere or any(row.different or row.broken for row in self.rows)
        return bool(self.theirs) and not wrong

    def told(self, shown: int) -> list[str]:
        """The table by parser, and the first of everything that is wrong, in lines."""
        different = [name for row in self.rows for name in row.different]
        broken = [name for row in self.rows for name in row.broken]
        cases = len(self.theirs.keys() | self.ours.keys())
        lines = [
            *table(self.rows),
            "",
            f"parsers: {cases:,} cases in {len(self.rows)} rows, {len(different)} different",
        ]
        for name in different[:shown]:
            lines += [name, f"    full, slice: {first_difference(self.theirs.get(name), self.ours.get(name))}"]
        if broken:
            lines.append(f"{len(broken)} cases fail as code does that does not fit together:")
        for name in broken[:shown]:
            lines += [name, *(f"    {_short(side.get(name))}" for side in (self.theirs, self.ours))]
        if self.composed_nowhere:
            lines.append(f"full vLLM composes these nowhere: {', '.join(self.composed_nowhere)}")
        if self.answering_nowhere:
            lines.append(f"full vLLM gives nothing but errors with these: {', '.join(self.answering_nowhere)}")
        return lines


def compare(theirs: Results, ours: Results) -> Comparison:
    """Full vLLM's results against the slice's."""
    return Comparison(theirs, ours, rows(theirs, ours), composed_nowhere(theirs), answering_nowhere(theirs))


def _short(result: Any) -> str:
    return str(result)[:300]


def rows(full: Results, ours: Results) -> list[Row]:
    """One row a parser or pair, and one each for rendering, harmony and the protocol types."""
    found: dict[str, Row] = {}
    for name in dict.fromkeys([*full, *ours]):
        part, title = _place(name)
        row = found.setdefault(title, Row(title))
        row.cases[part] += 1
        result = full.get(name)
        row.errors += isinstance(result, dict) and "error" in result
        if any(_is_broken(part, title, one) for one in (result, ours.get(name))):
            row.broken.append(name)
        if name not in full or name not in ours or full[name] != ours[name]:
            row.different.append(name)
    return sorted(found.values(), key=lambda row: ("(" in row.title, row.title))


def _is_broken(part: str, title: str, result: Any) -> bool:
    """Whether something in a result is an error of code that does not fit together."""
    if isinstance(result, list):
        return any(_is_broken(part, title, item) for item in result)
    if not isinstance(result, dict):
        return False
    error = result.get("error")
    if len(result) != 1 or not isinstance(error, str):
        return any(_is_broken(part, title, value) for value in result.values())
    first, *causes = (text.partition(":")[0] for text in error.split(" <- "))
    if part == "compose" and not NEVER_COMPOSED & set(names(title)):
        # vLLM puts a TypeError of its own around what a parser says of the tokenizer.
        return not (first in _UNUSABLE or (first == "TypeError" and causes and causes[0] in _UNUSABLE))
    if any(OWN_FAULTS.get((part, name)) == error for name in names(title)):
        return False
    return part != "compose" and first in _BROKEN


def names(title: str) -> list[str]:
    """The names of the parsers in a row's title."""
    return title.removeprefix("(reasoning) ").split(" + ")


def composed_nowhere(full: Results) -> list[str]:
    """The parsers and pairs that full vLLM composes with no model folder, without those that need what none has."""
    return _without_answer(full, ("compose",))


def answering_nowhere(full: Results) -> list[str]:
    """The parsers and pairs of which full vLLM gives errors alone, whole or streamed: nothing of them is compared."""
    return _without_answer(full, ("parse", "stream"))


def _without_answer(full: Results, parts: tuple[str, ...]) -> list[str]:
    """The rows of which no case of these parts has another result than an error; not those that need what none has."""
    answered: dict[str, bool] = {}
    for name, result in full.items():
        part, title = _place(name)
        if part in parts:
            answered[title] = answered.get(title, False) or isinstance(result, list)
    return sorted(title for title, found in answered.items() if not found and not NEVER_COMPOSED & set(names(title)))


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
