"""docs/results/encodes.md, written of what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.support.models import FAMILIES, ROOT

PATH = ROOT / "docs" / "results" / "encodes.md"
# The families that share the texts; the others have no fast encoder.
ENCODED = tuple(family for family in FAMILIES if family != "mistral-spm")

_HEAD = """# Encodes compared

Does the encoder that is used by default give the ids of `tokenizers`? Each text goes through both, by the way that a render takes:
cut at special tokens, what is kept of stretches that were encoded before, the guard, and the fast encoder
([performance.md](../performance.md#render)). "Left" counts stretches that the fast encoder leaves to `tokenizers`: those with `ſ`.

    .venv/bin/python -m tests.encodes --write

"""


def text(results: Mapping[str, Mapping[str, Any]], encoder: str, reference: str, machine: str) -> str:
    """The page; ``results`` by family, as ``tests.encodes.__main__`` measures them."""
    fast = {name: one for name, one in results.items() if one["fast"]}
    lines = [
        "| tokenizer | texts | characters | tokens | left | different ids |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    lines += [_row(name, [one]) for name, one in fast.items()]
    lines.append(_row("all", list(fast.values())))
    kinds = sorted({kind for one in fast.values() for kind in one["encodes"]})
    by_kind = ["| texts | encodes | different ids |", "| --- | ---: | ---: |"]
    for kind in kinds:
        encoded, different = (sum(one[part].get(kind, 0) for one in fast.values()) for part in ("encodes", "different"))
        by_kind.append(f"| {kind} | {encoded:,} | {different:,} |")
    others = ", ".join(name for name, one in results.items() if not one["fast"])
    rest = f"No fast encoder takes the tokenizers of {others}: they encode by `tokenizers` alone.\n" if others else ""
    measured = f"{encoder} and {reference} on {machine}.\n"
    return "\n".join([_HEAD.rstrip("\n"), "", measured, *lines, "", *by_kind, "", rest]).rstrip("\n") + "\n"


def _row(name: str, of: list[Mapping[str, Any]]) -> str:
    encodes, different = (sum(sum(one[part].values()) for one in of) for part in ("encodes", "different"))
    numbers = [encodes, *(sum(one[part] for one in of) for part in ("characters", "tokens", "left")), different]
    return f"| {name} | " + " | ".join(f"{number:,}" for number in numbers) + " |"
