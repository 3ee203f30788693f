"""What full vLLM answered, as the data file keeps it.

By parsers and output: the digest of the joined one-shot answer, then the joined streams that differ from it, each with its
digest, its chunkings and the kinds of difference. A chunking that is not listed gives the one-shot answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.equality import joined
from tests.equality.wire import Case, Json

DATA = Path(__file__).parent / "data" / "full-vllm-0.33.0.json"


@dataclass(frozen=True)
class Different:
    """A joined stream that is not the one-shot answer."""

    digest: str
    chunkings: tuple[str, ...]
    kinds: tuple[str, ...]


@dataclass(frozen=True)
class Answer:
    """One output's answers: the digest of the one-shot one, how many chunkings were compared, and what differs."""

    digest: str
    compared: int
    different: tuple[Different, ...]

    def expected(self, chunking: str) -> tuple[str, tuple[str, ...]]:
        """The digest of a joined stream, and how it differs from the one-shot answer (not at all: no kinds)."""
        for one in self.different:
            if chunking in one.chunkings:
                return one.digest, one.kinds
        return self.digest, ()


Answers = dict[str, dict[str, Answer]]


def answer(one_shot: Json, streams: dict[str, Json]) -> Answer:
    """The answers of one case."""
    chunkings: dict[str, list[str]] = {}
    kinds: dict[str, list[str]] = {}
    for name, stream in streams.items():
        if found := joined.kinds(one_shot, stream):
            chunkings.setdefault(joined.digest(stream), []).append(name)
            kinds[joined.digest(stream)] = found
    different = [Different(key, tuple(sorted(names)), tuple(kinds[key])) for key, names in chunkings.items()]
    return Answer(joined.digest(one_shot), len(streams), tuple(sorted(different, key=lambda one: one.chunkings)))


def collect(results: Iterable[tuple[Case, tuple[Json, dict[str, Json]]]]) -> Answers:
    """The answers of all cases."""
    found: Answers = {}
    for case, (one_shot, streams) in results:
        found.setdefault(case.title, {})[case.name] = answer(one_shot, streams)
    return {title: dict(sorted(found[title].items())) for title in sorted(found)}


def dumps(answers: Answers) -> str:
    """The data file's text: JSON, an output a line."""
    blocks = []
    for title, outputs in answers.items():
        lines = []
        for name, one in outputs.items():
            different = [[each.digest, list(each.chunkings), list(each.kinds)] for each in one.different]
            row = json.dumps([one.digest, one.compared, *different], ensure_ascii=False)
            lines.append(f"  {json.dumps(name, ensure_ascii=False)}: {row}")
        blocks.append(f" {json.dumps(title)}: {{\n" + ",\n".join(lines) + "\n }")
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def loads(text: str) -> Answers:
    """The reverse of :func:`dumps`."""
    return {
        title: {
            name: Answer(digest, compared, tuple(Different(d, tuple(c), tuple(k)) for d, c, k in different))
            for name, (digest, compared, *different) in outputs.items()
        }
        for title, outputs in json.loads(text).items()
    }


def load() -> Answers:
    return loads(DATA.read_text(encoding="utf-8"))
