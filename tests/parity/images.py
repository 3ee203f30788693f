"""Pictures in chats: our server's answers beside those of full vLLM's, for every family of models.

Both get the same requests. An answer is compared whole: token ids, hashes,
places, each tensor's type, shape, layout and bytes, or the error's status and
message. The ``slices`` of a flat field are left out: in vLLM they depend on
what its server saw before.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from tests.images.recorded import MODELS, build_models
from tests.parity.pictures import Picture, pictures
from tests.parity.record_images import GIVEN, write_cases
from tests.parity.reference import ROOT, Reference
from tests.support.servers import free_port, running

NAMES = tuple(MODELS)
FOLDERS = "image-models"
"""The folder of the model folders, in ``build``."""
RENDER = "/v1/chat/completions/render"
_SECONDS = 300
_SEVERAL = 3
"""Pictures of one request, in the requests that have several."""
# What the two sides word differently over a picture that neither takes; docs/compatibility.md has the rows.
_REFUSED = 400


@dataclass
class Row:
    """One family: what it was sent, how many values its tensors had, how many of those and which answers differ."""

    model: str
    requests: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    refused: int = 0
    values: int = 0
    different_values: int = 0
    different: list[str] = field(default_factory=list)


def compare(
    reference: Reference, out: Path, models: Path, names: Iterable[str], count: int, seed: int, record: bool = False
) -> list[Row]:
    """Both servers of every model, one model after another; prints each row when it is there.

    With ``record`` some of vLLM's answers are kept as cases of ``tests/images``.
    """
    given = pictures(reference.python, count, seed)
    build_models(models / "qwen3", models.parent / FOLDERS)
    rows = []
    print(*_HEAD, sep="\n", flush=True)
    for name in names:
        with _servers(reference, models.parent, name, out) as (theirs, ours):
            if record and name not in GIVEN:
                write_cases(name, f"{FOLDERS}/{name}", lambda body, url=theirs: post(url + RENDER, body))  # type: ignore[misc]
            row = compare_model(name, theirs, ours, given)
        print(line(row), flush=True)
        rows.append(row)
    return rows


def compare_model(name: str, theirs: str, ours: str, given: Sequence[Picture]) -> Row:
    """One model, whose servers run at two addresses."""
    row = Row(name)
    groups = [[picture] for picture in given]
    groups += [list(given[at : at + _SEVERAL]) for at in range(0, min(len(given), 20 * _SEVERAL), _SEVERAL)]
    with ThreadPoolExecutor(2) as pool:
        for group in groups:
            body = json.dumps(chat(name, group)).encode()
            answers = list(pool.map(lambda url, body=body: post(url + RENDER, body), (theirs, ours)))
            count_answers(row, group, *answers)
    return row


def chat(name: str, group: Sequence[Picture]) -> dict[str, Any]:
    """A chat with text around every picture: pictures side by side are refused by some families, in vLLM too."""
    parts: list[Any] = [{"type": "text", "text": "Look:"}]
    for picture in group:
        parts += [{"type": "image_url", "image_url": {"url": picture.url()}}, {"type": "text", "text": "and say."}]
    return {"model": name, "messages": [{"role": "user", "content": parts}], "max_tokens": 4}


def post(url: str, body: bytes) -> tuple[int, Any]:
    """Status and JSON of an answer."""
    headers = {"content-type": "application/json", "accept-encoding": "identity"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=_SECONDS) as answer:
            return answer.status, msgspec.json.decode(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, msgspec.json.decode(error.read())


def count_answers(row: Row, group: Sequence[Picture], theirs: tuple[int, Any], ours: tuple[int, Any]) -> None:
    """Add two answers to one request to a row."""
    row.requests[group[0].kind if len(group) == 1 else "several"] += 1
    if theirs[0] != 200 or ours[0] != 200:
        row.refused += 1
        if theirs[0] != ours[0] or theirs[0] != _REFUSED:
            row.different.append(f"{_names(group)}: {_short(theirs)} != {_short(ours)}")
        return
    found = []
    for name in ("token_ids", "sampling_params"):
        if theirs[1][name] != ours[1][name]:
            found.append(f"{name}: {str(theirs[1][name])[:200]} != {str(ours[1][name])[:200]}")
    for name in ("mm_hashes", "mm_placeholders"):
        if theirs[1]["features"][name] != ours[1]["features"][name]:
            found.append(f"{name}: {theirs[1]['features'][name]} != {ours[1]['features'][name]}")
    for name in ("kwargs_data", "mm_metadata"):
        found += _compare_items(row, name, theirs[1]["features"][name], ours[1]["features"][name])
    if found:
        row.different.append(f"{_names(group)}: {'; '.join(found)}")


def _compare_items(row: Row, name: str, theirs: Any, ours: Any) -> list[str]:
    if (
        theirs is None
        or ours is None
        or {key: len(items) for key, items in theirs.items()} != {key: len(items) for key, items in ours.items()}
    ):
        return [] if theirs == ours else [f"{name}: {str(theirs)[:80]} != {str(ours)[:80]}"]
    found = []
    for modality, items in theirs.items():
        for index, (left, right) in enumerate(zip(items, ours[modality], strict=True)):
            one, other = _tensors(left), _tensors(right)
            for key in sorted(one.keys() | other.keys()):
                place = f"{name}.{modality}[{index}].{key}"
                if key not in one or key not in other:
                    found.append(f"{place}: only in {'vLLM' if key in one else 'ours'}")
                    continue
                (shape, *first), (other_shape, *second) = one[key], other[key]
                if (shape, first[:2]) != (other_shape, second[:2]):
                    found.append(f"{place}: {shape} {first[:2]} != {other_shape} {second[:2]}")
                    continue
                size = _WIDTHS[first[0]]
                row.values += len(first[2]) // size
                if first[2] != second[2]:
                    different = _different(first[2], second[2], size)
                    row.different_values += different
                    found.append(f"{place}: {different} values of {len(first[2]) // size}")
    return found


_WIDTHS = {
    "uint8": 1,
    "int8": 1,
    "bool": 1,
    "int32": 4,
    "float64": 8,
    "bfloat16": 2,
    "float16": 2,
    "float32": 4,
    "int64": 8,
}


def _tensors(item: str | None) -> dict[str, Any]:
    """Shape, type, layout and bytes of each tensor."""
    if item is None:
        return {}
    decoded = msgspec.msgpack.decode(base64.b64decode(item))
    tensors = {}
    for name, entry in decoded.items():
        dtype, shape, data = entry["data"]
        layout, options = entry["field"]
        kept = {key: value for key, value in options.items() if key != "slices"}
        tensors[name] = (shape, dtype, [layout, kept], bytes(data.data))
    return tensors


def _different(left: bytes, right: bytes, size: int) -> int:
    if len(left) != len(right):
        return max(len(left), len(right)) // size
    one, other = (np.frombuffer(data, np.dtype(f"V{size}")) for data in (left, right))
    return int((one != other).sum())


def _names(group: Sequence[Picture]) -> str:
    return " + ".join(f"{picture.kind} {picture.name}" for picture in group)


def _short(answer: tuple[int, Any]) -> str:
    return f"{answer[0]} {str(answer[1].get('error', '') if isinstance(answer[1], dict) else answer[1])[:200]}"


_HEAD = (
    "| model folder | synthetic | real | random sizes | several in a chat | refused by both | values | different values "
    "| different answers |",
    "|---|---|---|---|---|---|---|---|---|",
)


def line(row: Row) -> str:
    """A row of the table."""
    counts = " | ".join(f"{row.requests[kind]:,}" for kind in ("synthetic", "real", "random sizes", "several"))
    return (
        f"| {row.model} | {counts} | {row.refused} | {row.values:,} | {row.different_values:,} | {len(row.different)} |"
    )


def table(rows: Sequence[Row]) -> list[str]:
    """All rows, as a Markdown table."""
    return [*_HEAD, *map(line, rows)]


@contextmanager
def _servers(reference: Reference, build: Path, name: str, out: Path) -> Any:
    """vLLM's server and ours for one model folder; their addresses.

    Both are given the same model argument, which is part of every hash: from ``build``, the same on every machine.
    """
    theirs, ours = free_port(), free_port()
    shared = [f"{FOLDERS}/{name}", "--served-model-name", name, "--host", "127.0.0.1", "--port"]
    # The folder of InternVL brings a configuration class, as its repositories do.
    vllm = [reference.python, "-m", "vllm.entrypoints.cli.main", "launch", "render", *shared, str(theirs)]
    vllm.append("--trust-remote-code")
    here = [sys.executable, "-m", "handlers.commands", "serve", *shared, str(ours)]
    environ = reference.environ()
    paths = [str((ROOT / path).absolute()) for path in reference.pythonpath.split(os.pathsep) if path]
    environ["PYTHONPATH"] = os.pathsep.join(paths)
    logs = out / f"images-vllm-{name}.log", out / f"images-ours-{name}.log"
    with (
        running(vllm, theirs, seconds=_SECONDS, environ=environ, folder=build, log=logs[0]),
        running(here, ours, environ={**os.environ, "PYTHONPATH": str(ROOT)}, folder=build, log=logs[1]),
    ):
        yield f"http://127.0.0.1:{theirs}", f"http://127.0.0.1:{ours}"
