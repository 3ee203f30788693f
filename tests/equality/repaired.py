"""``python -m tests.equality.repaired``: repaired answers to all outputs, in every chunking, and the page of results.

A repaired stream has to equal its one-shot answer; both are held against what
vLLM's reading says one-shot, which ``tests.equality.record`` compares with full vLLM.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.equality import joined, ours, recorded
from tests.equality.cases import Models, cases, pairs
from tests.support.models import ROOT, model_folders

PAGE = ROOT / "docs" / "results" / "repaired.md"
# How a repaired one-shot answer differs from vLLM's, in words for the page, by the kind of `joined.kinds`.
GAINED = {
    "arguments: cut": "arguments are JSON that were none, or the other way round",
    "arguments: not JSON one-shot": "arguments are a JSON object that vLLM's are not",
    "arguments: not JSON when streamed": "arguments are no JSON where vLLM's are",
    "arguments: other value": "values have the types that are written or that the schema asks for",
    "arguments: spelling": "the same JSON, written as the model wrote it",
    "call id": "ids of another form",
    "call lost": "a call that was cut is none",
    "call name": "the name of a tool that was offered",
    "call only streamed": "a call that vLLM does not make",
    "content: less streamed": "text that vLLM shows twice, or that became a call",
    "content: lost": "text that became a call or reasoning",
    "content: more streamed": "text that vLLM leaves out",
    "content: only streamed": "text where vLLM shows none",
    "content: other text": "other text",
    "content: white space": "white space",
    "finish_reason": "`tool_calls` with a call, `stop` without",
    "one-shot refused": "an answer where vLLM's parser raises an error",
    "reasoning: less streamed": "less reasoning",
    "reasoning: lost": "reasoning that vLLM finds and its streaming parser does not: it is content",
    "reasoning: more streamed": "more reasoning",
    "reasoning: only streamed": "reasoning where vLLM finds none",
    "reasoning: other text": "other reasoning",
}


@dataclass
class Row:
    """One parser or pair: ``differing`` streams are not their one-shot answer; ``changed`` counts the kinds of
    difference between the one-shot answers, repaired and vLLM's."""

    title: str
    outputs: int = 0
    streams: int = 0
    differing: list[str] = field(default_factory=list)
    changed: Counter[str] = field(default_factory=Counter)
    changed_outputs: int = 0


def rows(deployed: Models, size: slice = slice(None), chunkings: int | None = None) -> Iterator[Row]:
    """Every parser and pair, read repaired; so many ``chunkings`` of each output, in rotation (None: all)."""
    for number, (pair, folder) in enumerate(pairs()[size]):
        if pair == (None, None):
            continue
        plain = deployed.deployment(pair, folder)
        model = deployed.deployment(pair, folder, answers="repaired")
        row = None
        for place, case in enumerate(cases(plain, pair, folder)):
            row = row or Row(case.title)
            whole = ours.one_shot(model, case)
            row.outputs += 1
            names = list(case.chunkings)
            start = (place + number) % len(names)
            for name in (names[start:] + names[:start])[:chunkings]:
                row.streams += 1
                if ours.streamed(model, case, name) != whole:
                    row.differing.append(f"{case.title}: {case.name}, {name}")
            if changes := joined.kinds(ours.one_shot(plain, case), whole):
                row.changed_outputs += 1
                row.changed.update(changes)
        if row is not None:
            yield row


def page(every: list[Row], vllms: recorded.Answers) -> str:
    """The page of results; ``vllms`` are the recorded answers of vLLM."""
    total: Counter[str] = Counter()
    for row in every:
        total.update(row.changed)
    lines = []
    for row in sorted(every, key=lambda row: row.title):
        streams = sum(len(one.chunkings) for answer in vllms[row.title].values() for one in answer.different)
        changes = ", ".join(f"{kind} {count}" for kind, count in sorted(row.changed.items()))
        lines.append(
            f"| {row.title} | {row.outputs} | {streams} | {len(row.differing)} | {row.changed_outputs} | {changes} |"
        )
    return _PAGE.format(
        outputs=f"{sum(row.outputs for row in every):,}",
        streams=f"{sum(row.streams for row in every):,}",
        each=_how_often(every, max(answer.compared for answers in vllms.values() for answer in answers.values())),
        differing=f"{sum(len(row.differing) for row in every):,}",
        changed=f"{sum(row.changed_outputs for row in every):,}",
        kinds="\n".join(f"| {kind} | {GAINED[kind]} | {total[kind]:,} |" for kind in sorted(total)),
        table="\n".join(lines),
    )


def _how_often(every: list[Row], chunkings: int) -> str:
    each = round(sum(row.streams for row in every) / sum(row.outputs for row in every))
    return f"each of {chunkings} chunkings" if each == chunkings else f"{each} of {chunkings} chunkings, in rotation"


_PAGE = """# Repaired answers: results

`python -m tests.equality.repaired` writes this page, from the outputs of [equality.md](../equality.md), through every parser and pair.

{streams} streams of {outputs} outputs with `--answers repaired`: **{differing} differ from their one-shot answer**. Each output was streamed
in {each}. {changed} one-shot answers are not those that vLLM's reading gives one-shot.

## How repaired one-shot answers differ from vLLM's

One answer can differ in several ways. Most outputs here ask for them: they are cut, lack markup, or are in another form than the
parser's.

| difference | the repaired answer has | outputs |
|---|---|---|
{kinds}

## By parser

| parser | outputs | streams unlike one-shot, vLLM | repaired | one-shot unlike vLLM's | differences |
|---|---|---|---|---|---|
{table}
"""


def main(arguments: list[str] | None = None) -> int:
    """The exit status is 0 when no stream differs from its one-shot answer."""
    parser = argparse.ArgumentParser(prog="python -m tests.equality.repaired", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--chunkings", type=int, metavar="N", help="only N chunkings of each output, in rotation")
    options = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    work = ROOT / "build" / "equality"
    work.mkdir(parents=True, exist_ok=True)
    every = []
    for row in rows(Models(model_folders(), work), chunkings=options.chunkings):
        every.append(row)
        print(*row.differing, sep="\n", end="\n" if row.differing else "")
    print(f"{sum(row.streams for row in every):,} streams, {sum(len(row.differing) for row in every)} unlike one-shot")
    if not options.check:
        PAGE.write_text(page(every, recorded.load()), encoding="utf-8")
    return 1 if any(row.differing for row in every) else 0


if __name__ == "__main__":
    sys.exit(main())
