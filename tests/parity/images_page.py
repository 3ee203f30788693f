"""``docs/results/images.md``, made from a run over all models."""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from infra.slice.versions import NEWEST
from tests.parity import images
from tests.parity.images import Row
from tests.parity.reference import ROOT, Reference

PATH = ROOT / "docs" / "results" / "images.md"
_PAGE = """# Pictures against full vLLM: results

`make parity ARGS="--only images --write"` writes this page; [parity.md](../parity.md#pictures) says what is compared,
[images.md](../images.md) how it is made.

{date}, vLLM {vllm}, {machine}, random sizes by seed {seed}; vLLM with {packages}. {requests:,} chats with pictures,
{values:,} values in their tensors: {different_values:,} values and {different:,} answers differ.

A row is a model folder, served by vLLM and by us; both got the same chats. "Refused by both" are pictures that no model of
the family takes (too long, or too small after the resize): both answered 400.

{table}
"""
_PACKAGES = ("torch", "torchvision", "transformers", "pillow", "numpy", "scikit-image", "matplotlib")


def text(rows: Sequence[Row], packages: str, seed: int) -> str:
    """The page; ``packages`` are those of the reference, with versions."""
    return _PAGE.format(
        date=datetime.now(UTC).date(),
        vllm=NEWEST,
        machine=platform.machine(),
        seed=seed,
        packages=packages,
        requests=sum(sum(row.requests.values()) for row in rows),
        values=sum(row.values for row in rows),
        different_values=sum(row.different_values for row in rows),
        different=sum(len(row.different) for row in rows),
        table="\n".join(images.table(rows)),
    )


def write(rows: Sequence[Row], reference: Reference, seed: int, path: Path = PATH) -> None:
    """Put the page where the documents link to it."""
    path.write_text(text(rows, _versions(reference), seed), encoding="utf-8")


def _versions(reference: Reference) -> str:
    code = (
        "import importlib.metadata as m, json, sys\n"
        "found = {d.metadata['Name'].lower(): d.version for d in m.distributions()}\n"
        "print(json.dumps({name: found[name] for name in sys.argv[1:] if name in found}))"
    )
    command = [reference.python, "-c", code, *_PACKAGES]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return ", ".join(f"{name} {version}" for name, version in found.items())
