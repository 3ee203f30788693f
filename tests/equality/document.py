"""``docs/results/equality.md`` and the numbers of ``docs/equality.md``, made from the recorded answers."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from tests.equality.cases import chunkings
from tests.equality.recorded import Answer, Answers

DOCS = Path(__file__).parents[2] / "docs"
# The conclusions, of which the numbers between the marks are made here, and the results, which are made whole.
CONCLUSIONS, RESULTS = DOCS / "equality.md", DOCS / "results" / "equality.md"
_MARKED = re.compile(r"(<!-- numbers -->\n).*?(<!-- end -->)", re.DOTALL)

_NUMBERS = """{streams:,} streams of {outputs:,} outputs, vLLM 0.33.0: **{equal:,} equal the one-shot answer, {different:,} do not**. {clean} of {rows}
parsers and pairs have no difference at all, {few} more only in white space or in the spelling of arguments. All {answers:,} joined
answers of this project are those of full vLLM.
"""
_RESULTS = """# Streamed and one-shot answers: results

`python -m tests.equality.record` writes this page; [equality.md](../equality.md) says what is compared, and what follows.

The outputs: {tools} tool parsers, {reasonings} reasoning parsers, {pairs} pairs and no parser, each with {fewest} to {most} outputs,
each output streamed in {chunkings} ways.

{numbers}
## By kind of difference

One stream can have several.

| difference | meaning | streams | parsers and pairs |
|---|---|---|---|
{kinds}

## By chunks

| chunks | equal | different |
|---|---|---|
{chunks}

## By parser

`+` joins a tool and a reasoning parser. The last column counts streams.

| parser | outputs | streams | equal | different | differences |
|---|---|---|---|---|---|
{table}
"""
MEANINGS = {
    "arguments: cut": "the stream has only the beginning of the arguments, or nothing of them",
    "arguments: not JSON one-shot": "only the stream's arguments are JSON",
    "arguments: not JSON when streamed": "only the one-shot arguments are JSON",
    "arguments: other value": "both are JSON, with different values",
    "arguments: spelling": "the same JSON value, written differently",
    "call id": "the ids have different forms",
    "call lost": "the stream has fewer calls",
    "call name": "calls in the same place have different names",
    "call only streamed": "the stream has more calls",
    "call type": "one has no type",
    "content: less streamed": "the stream has a part of the text",
    "content: lost": "the stream has no text",
    "content: more streamed": "one-shot has a part of the stream's text",
    "content: only streamed": "one-shot has no text",
    "content: other text": "neither text holds the other",
    "content: white space": "the texts differ in white space only",
    "finish_reason": "`stop` on one side and `tool_calls` on the other",
    "one-shot refused": "the parser raises an error one-shot",
    "stream refused": "the parser raises an error in the stream",
    "usage": "the counts differ",
}
MEANINGS |= {kind.replace("content", "reasoning"): text for kind, text in MEANINGS.items() if "content:" in kind}
_HARMLESS = frozenset({"content: white space", "reasoning: white space", "arguments: spelling"})


def _counts(outputs: dict[str, Answer]) -> Counter[str]:
    """How many streams show each kind of difference."""
    counts: Counter[str] = Counter()
    for answer in outputs.values():
        for one in answer.different:
            counts.update(dict.fromkeys(one.kinds, len(one.chunkings)))
    return counts


def _streams(outputs: dict[str, Answer]) -> tuple[int, int]:
    """How many streams were compared, and how many differ."""
    different = sum(len(one.chunkings) for answer in outputs.values() for one in answer.different)
    return sum(answer.compared for answer in outputs.values()), different


def numbers(answers: Answers) -> str:
    """The sentences that sum the recorded answers up."""
    streams, different = (sum(column) for column in zip(*map(_streams, answers.values()), strict=True))
    outputs = sum(map(len, answers.values()))
    found = [set(_counts(of_parser)) for of_parser in answers.values()]
    return _NUMBERS.format(
        streams=streams,
        outputs=outputs,
        equal=streams - different,
        different=different,
        clean=sum(not kinds for kinds in found),
        rows=len(answers),
        few=sum(bool(kinds) and kinds <= _HARMLESS for kinds in found),
        answers=streams + outputs,
    )


def conclusions(answers: Answers) -> str:
    """``docs/equality.md`` with the numbers of these answers."""
    written = CONCLUSIONS.read_text(encoding="utf-8")
    return _MARKED.sub(lambda match: match[1] + numbers(answers) + match[2], written)


def results(answers: Answers) -> str:
    """``docs/results/equality.md``, the whole page."""
    rows, total = [], Counter[str]()
    having: Counter[str] = Counter()
    for title in sorted(answers, key=lambda title: ("(" in title, title)):
        counts = _counts(answers[title])
        total += counts
        having.update(counts.keys())
        streams, different = _streams(answers[title])
        shown = ", ".join(f"{kind} {number}" for kind, number in sorted(counts.items()))
        rows.append(f"| {title} | {len(answers[title])} | {streams} | {streams - different} | {different} | {shown} |")
    every = [answer for outputs in answers.values() for answer in outputs.values()]
    by_chunks = {name: sum(bool(one.expected(name)[1]) for one in every) for name in chunkings(1, False, "")}
    sizes = sorted(len(outputs) for title, outputs in answers.items() if title != "(no parser)")
    return _RESULTS.format(
        tools=sum("(" not in title and "+" not in title for title in answers),
        reasonings=sum(title.startswith("(reasoning)") for title in answers),
        pairs=sum("+" in title for title in answers),
        fewest=sizes[0],
        most=sizes[-1],
        chunkings=len(by_chunks),
        numbers=numbers(answers),
        chunks="\n".join(f"| {name} | {len(every) - number:,} | {number:,} |" for name, number in by_chunks.items()),
        kinds="\n".join(f"| {kind} | {MEANINGS[kind]} | {total[kind]:,} | {having[kind]} |" for kind in sorted(total)),
        table="\n".join(rows),
    )
