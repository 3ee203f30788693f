"""``docs/results/turns.md``, made from a run of ``python -m tests.turns``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.turns.conversation import PLAIN, Tally

PATH = Path(__file__).parents[2] / "docs" / "results" / "turns.md"
POLICIES = (PLAIN, "exact", "template", "append")
_PAGE = """# Turns that continue token for token: results

`.venv/bin/python -m tests.turns --write` writes this page; [turns.md](../turns.md) explains it.

Chats of 20 turns are generated, with tools, in each family's format: what the model says is not sampled from a model. Each of {templates}
templates has {chats} chats under `exact` and `append`, and one under the others, each in 8 styles: tidy or untidy spacing, canonical or
re-segmented ids, reasoning sent back or not. Templates
named "ours" are the project's; the others are the published ones, as `trl` {version} ships them. Families without a tokenizer of their own
in a package run on Qwen 3's with their special tokens.

Under `exact` {exact_turns:,} turns were rendered; in {wrong_text} the ids' text was not that of the plain prompt. Under `append` {kept} of
{append_turns:,} turns kept all ids ({kept_share:.2%}). In {wrong_spans} of {turns:,} turns of all policies a sampled span was not what was
sampled. Of {edits:,} answers that were sent back changed, {wrong_edits} kept their ids.

## By template

"Drifting" are turns whose plain prompt does not begin with the last prompt and its output; "lost" is the share of those ids behind
the first other one, which an engine computes again. "Keeps" are turns that keep all of them. The prompt's size is that of
`append` beside the plain one.

| template | turns | drifting % | lost % | `exact` keeps % | `template` keeps % | `append` keeps % | prompt size |
|---|---|---|---|---|---|---|---|
{families}

## Cost

CPU time of a plain and of a continued render of the same request, taken in turns in one process, at some 32,000 tokens. "Known" is
a plain render by a process that has rendered the conversation before, and kept its texts with their ids
(`DERENDER_ENCODE_CACHE_BYTES`); the other two are without.

| template | policy | what happened | tokens | plain ms | continued ms | continued to plain | known ms |
|---|---|---|---|---|---|---|---|
{costs}

## Bytes

Of the request of `append` above, by its parts.

| part | JSON | gzip |
|---|---|---|
{sizes}
"""


def text(
    tallies: Mapping[str, Mapping[str, Tally]],
    chats: int,
    version: str,
    costs: Sequence[Mapping[str, Any]],
    sizes: Sequence[Mapping[str, Any]],
) -> str:
    """The page; ``tallies`` are by family and policy."""
    sums = {policy: Tally() for policy in POLICIES}
    for family in tallies.values():
        for policy, tally in family.items():
            sums[policy].add(tally)
    whole = Tally()
    for tally in sums.values():
        whole.add(tally)
    exact, append = sums["exact"], sums["append"]
    return _PAGE.format(
        templates=len(tallies),
        chats=chats,
        version=version,
        exact_turns=exact.turns,
        wrong_text=exact.wrong_text,
        kept=f"{append.whole:,}",
        append_turns=append.turns,
        kept_share=append.whole / append.turns,
        wrong_spans=whole.wrong_spans,
        turns=whole.turns,
        edits=whole.edits,
        wrong_edits=whole.wrong_edits,
        families="\n".join(_row(name, family) for name, family in [*tallies.items(), ("all", sums)]),
        costs="\n".join(
            f"| {row['family']} | `{row['policy']}` | {row['mode']} | {row['tokens']:,} | {row['plain_ms']:.1f} | "
            f"{row['continued_ms']:.1f} | {row['ratio']:.2f} | {row['known_ms']:.1f} |"
            for row in costs
        ),
        sizes="\n".join(f"| {row['part']} | {row['bytes']:,} | {row['gzip']:,} |" for row in sizes),
    )


def _row(name: str, tallies: Mapping[str, Tally]) -> str:
    plain, append = tallies[PLAIN], tallies["append"]
    keeps = [f"{tallies[policy].whole / tallies[policy].turns:.0%}" for policy in POLICIES[1:]]
    cells = [
        name,
        f"{append.turns:,}",
        f"{plain.drifting / plain.turns:.0%}",
        f"{plain.lost / plain.ids:.1%}",
        *keeps,
        f"×{append.size / append.plain_size:.2f}",
    ]
    return f"| {' | '.join(cells)} |"
