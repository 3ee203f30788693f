"""``docs/equality.md``, made from the recorded answers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.equality.cases import chunkings
from tests.equality.recorded import Answer, Answers

PATH = Path(__file__).parents[2] / "docs" / "equality.md"

_HEAD = """# Streamed and one-shot answers

The same tokens of a model, derendered whole and as a stream, should give a client the same answer once it has put the
stream together. Mostly they do; where they do not, the difference is **vLLM's own**: full vLLM gives both answers as we do. This
page is the list, and the tests fail when it is not true.

## What is compared

Every tool parser ({tools}) and reasoning parser ({reasonings}) that can be loaded, {pairs} usual pairs and no parser at all, each
with {fewest} to {most} outputs in its family's form: reasoning (also opened by the prompt, cut, hidden, not asked for), one call
and two, nested and escaped arguments, other scripts and emoji, text before and behind calls, output cut in the first or the
second call, and `tool_choice` auto, none, required and named, forced calls in the family's own form and in plain JSON. Each output
is streamed whole in one chunk, by 1, 3 and 7 tokens, by 5 with the end in a chunk of its own, and in chunks of random
sizes ({chunkings} ways in all).

Compared are content, reasoning, the names and arguments of the calls (joined as clients do it), the form of their ids,
`finish_reason` and `usage`. Empty and absent text count as the same. The prompt's ids are given in both forms.

    python -m tests.equality.record           # both sides, then the data file and this page
    python -m tests.equality.record --check   # ours only, against the data file

The first one needs full vLLM ([parity.md](parity.md) says which, and how `DERENDER_VLLM_PYTHON` names another) and some minutes.
It runs all cases through vLLM's own derender classes and through ours, and writes nothing unless **every joined answer of ours is
vLLM's**. Streams of more than 16 chunks keep vLLM's parser from chunk to chunk, as its chat endpoint does, because its derender
parses all earlier chunks again for each.
`tests/equality/data` keeps a digest of each of vLLM's answers and the kinds of difference; `make test` compares ours with
those, every output one-shot and at least once for each different stream that vLLM makes of it.

`cohere_command3` and `cohere_command4` need a package of Cohere's and are not compared.

## In short

{streams:,} streams of {outputs:,} outputs, vLLM 0.33.0: **{equal:,} equal the one-shot answer, {different:,} do not**; {clean} of {rows}
parsers and pairs have no difference at all, {few} more only in white space or the spelling of arguments.
All {answers:,} joined answers of this project are those of full vLLM.

| difference | meaning | streams | parsers and pairs |
|---|---|---|---|
{kinds}

One stream can have several.

| chunks | equal | different |
|---|---|---|
{chunks}

Chunks of one token differ least; with `--parser-step token` every stream is as if it had come so
([compatibility.md](compatibility.md#streams-that-do-not-depend-on-their-chunks)). Output that is cut off or not in the form that was asked for has more than its share of the
differences, and so has a call that comes whole in one chunk.

## By parser

`+` joins a tool and a reasoning parser. The last column counts streams.

| parser | outputs | streams | equal | different | differences |
|---|---|---|---|---|---|
{table}
"""
MEANINGS = {
    "arguments: cut": "the stream has only the beginning of the arguments, or none",
    "arguments: not JSON one-shot": "only the stream's arguments are JSON",
    "arguments: not JSON when streamed": "only the one-shot arguments are JSON",
    "arguments: other value": "both are JSON, of another value",
    "arguments: spelling": "the same JSON value, written otherwise",
    "call id": "ids have another form",
    "call lost": "the stream has fewer calls",
    "call name": "the calls in one place have other names",
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
    "usage": "other counts",
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


def text(answers: Answers) -> str:
    """The whole page."""
    rows, total = [], Counter[str]()
    having: Counter[str] = Counter()
    for title in sorted(answers, key=lambda title: ("(" in title, title)):
        outputs = answers[title]
        counts = _counts(outputs)
        total += counts
        having.update(counts.keys())
        streams, different = _streams(outputs)
        shown = ", ".join(f"{kind} {number}" for kind, number in sorted(counts.items()))
        rows.append(f"| {title} | {len(outputs)} | {streams} | {streams - different} | {different} | {shown} |")
    every = [_streams(outputs) for outputs in answers.values()]
    found = [set(_counts(outputs)) for outputs in answers.values()]
    outputs_given = [answer for outputs in answers.values() for answer in outputs.values()]
    by_chunks = {name: sum(bool(one.expected(name)[1]) for one in outputs_given) for name in chunkings(1, False, "")}
    streams, different = (sum(column) for column in zip(*every, strict=True))
    numbers = sorted(len(outputs) for title, outputs in answers.items() if title != "(no parser)")
    return _HEAD.format(
        tools=sum("(" not in title and "+" not in title for title in answers),
        reasonings=sum(title.startswith("(reasoning)") for title in answers),
        pairs=sum("+" in title for title in answers),
        fewest=numbers[0],
        most=numbers[-1],
        chunkings=len(by_chunks),
        streams=streams,
        answers=streams + len(outputs_given),
        outputs=len(outputs_given),
        equal=streams - different,
        different=different,
        rows=len(answers),
        clean=sum(not kinds for kinds in found),
        few=sum(bool(kinds) and kinds <= _HARMLESS for kinds in found),
        chunks="\n".join(
            f"| {name} | {len(outputs_given) - number:,} | {number:,} |" for name, number in by_chunks.items()
        ),
        kinds="\n".join(f"| {kind} | {MEANINGS[kind]} | {total[kind]:,} | {having[kind]} |" for kind in sorted(total)),
        table="\n".join(rows),
    )
