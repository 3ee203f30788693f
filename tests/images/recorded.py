"""Recorded answers of vLLM's own server to chats with images: cases, image files and model folders.

``data/cases/MODEL.jsonl`` has a request, its status and its response in each line. An image of a request is
``{"$file": NAME}``; in a response the items of ``kwargs_data`` and ``mm_metadata`` are decoded, each tensor by its dtype,
shape, SHA-256 of its bytes, and field. ``data/models`` holds the folders that the server was started with, without
the tokenizer: that of the Qwen3 folder which ``infra.models`` builds, with the tokens of ``added_tokens.json``.

The cases of gemma3, qwen2.5-vl and qwen3-vl were given; the others are recorded by ``tests.parity.record_images``. The folders
of the other families have small configurations in the family's form, with the published image settings. Folders without
recorded cases are there for ``make parity``, the fuzzer and the tests of what every family does.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

DATA = Path(__file__).parent / "data"
MODELS = sorted(path.name for path in (DATA / "models").iterdir())
RECORDED = sorted(path.stem for path in (DATA / "cases").iterdir())
_MEDIA_TYPES = {"jpg": "jpeg", "png": "png", "webp": "webp", "gif": "gif", "bmp": "bmp", "tiff": "tiff"}


@dataclass(frozen=True)
class Case:
    """One request and what vLLM answered; ``model_id`` is what its hashes were taken with."""

    id: str
    model: str
    model_id: str
    request: Any
    status: int
    response: Any


def cases(model: str) -> list[Case]:
    """The cases of one model, in the order in which they were recorded."""
    lines = (DATA / "cases" / f"{model}.jsonl").read_text(encoding="utf-8").splitlines()
    return [Case(**with_files(json.loads(line))) for line in lines]


def file(name: str) -> bytes:
    return (DATA / "files" / name).read_bytes()


def data_url(name: str) -> str:
    kind = _MEDIA_TYPES[name.split("_")[0]]
    return f"data:image/{kind};base64,{base64.b64encode(file(name)).decode()}"


def build_models(qwen3: Path, folder: Path) -> None:
    """Every model folder, below ``folder``; those that were made from the same files already stay."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in MODELS:
        mark = folder / f"{name}.sha256"
        files = sorted((DATA / "models" / name).iterdir())
        digest = hashlib.sha256(b"".join(path.name.encode() + path.read_bytes() for path in files)).hexdigest()
        if not mark.is_file() or mark.read_text() != digest:
            build_model(name, qwen3, folder)
            mark.write_text(digest)


def build_model(name: str, qwen3: Path, folder: Path) -> Path:
    """A model folder as it was served: the recorded files, and a tokenizer made from that of the Qwen3 folder."""
    target = folder / name
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(DATA / "models" / name, target)
    tokenizer = json.loads((qwen3 / "tokenizer.json").read_bytes())
    tokenizer["added_tokens"] += json.loads((target / "added_tokens.json").read_bytes())
    (target / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False), encoding="utf-8")
    (target / "added_tokens.json").unlink()
    return target


def decode_item(text: str) -> dict[str, Any]:
    """An item of ``kwargs_data`` in the recorded form."""
    item = msgspec.msgpack.decode(base64.b64decode(text, validate=True))
    decoded = {}
    for name, entry in item.items():
        dtype, shape, data = entry["data"]
        assert data.code == 3
        digest = hashlib.sha256(data.data).hexdigest()
        decoded[name] = {"dtype": dtype, "shape": shape, "sha256": digest, "field": entry["field"]}
    return decoded


def decoded(response: Any) -> Any:
    """A response with the items of its features in the recorded form, and the request's id left out."""
    if "features" not in response:
        return response
    features = response["features"]
    if features is not None:
        features = dict(features)
        for name in ("kwargs_data", "mm_metadata"):
            if features[name] is not None:
                features[name] = {
                    modality: [None if item is None else decode_item(item) for item in items]
                    for modality, items in features[name].items()
                }
    return {**response, "request_id": "*", "features": features}


def with_files(value: Any) -> Any:
    """A request with a data URL in the place of each file."""
    if isinstance(value, dict):
        if set(value) == {"$file"}:
            return data_url(value["$file"])
        return {key: with_files(item) for key, item in value.items()}
    return [with_files(item) for item in value] if isinstance(value, list) else value


def differences(expected: Any, answered: Any, place: str = "") -> Iterator[str]:
    """Where two answers differ, in words."""
    if isinstance(expected, dict) and isinstance(answered, dict):
        for key in sorted(expected.keys() | answered.keys()):
            if key not in expected or key not in answered:
                yield f"{place}.{key}: only in {'the answer' if key in answered else 'the record'}"
            else:
                yield from differences(expected[key], answered[key], f"{place}.{key}")
    elif expected != answered:
        yield f"{place}: {str(expected)[:200]} != {str(answered)[:200]}"
