"""``python -m tests.images.tensors_here FOLDERS [--pixels N]``: this machine's tensors of the recorded pictures against
vLLM's recorded ones.

Needs Pillow, numpy and msgspec alone, so that it runs where little else does: on
another processor, or under an emulation of one. ``FOLDERS`` holds the built model
folders (``build/image-models``), ``N`` is the largest picture that is tried. Besides, resizes of random pictures, as one
digest of all of them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from core.images.bounds import DecodeBudget, ImageLimits
from core.images.families.family import Family, Ingredients
from core.images.families.table import build_family, find_entry
from core.images.kernels import BICUBIC, BILINEAR, LANCZOS
from core.images.picture import open_picture
from core.images.placeholders import Vocabulary
from core.images.resize import resize
from tests.images.recorded import DATA, RECORDED, file

_RESIZES = 120


def main() -> int:
    """The exit status is 1 when a tensor differs from the recorded one."""
    parser = argparse.ArgumentParser(prog="python -m tests.images.tensors_here")
    parser.add_argument("folders", type=Path)
    parser.add_argument("--pixels", type=int, default=1 << 30)
    options = parser.parse_args()
    folders, compared, wrong = options.folders, 0, 0
    for model in RECORDED:
        family = family_of(folders / model)
        for name, recorded in recorded_items(model):
            found = digests(family, name, options.pixels)
            if not found:
                continue
            expected = {key: field["sha256"] for key, field in recorded.items()}
            compared += len(expected)
            different = [key for key in expected if found.get(key) != expected[key]]
            wrong += len(different)
            for key in different:
                print(f"{model}, {name}: {key} differs")
    print(f"{platform.machine()}: {compared} tensors, {wrong} different; {_RESIZES} resizes: {resizes()}")
    return int(wrong > 0 or not compared)


def family_of(folder: Path) -> Family:
    """The family of a model folder, which makes tensors and writes no tokens."""

    def read(name: str) -> Any:
        path = folder / name
        return json.loads(path.read_bytes()) if path.is_file() else {}

    config, processor, tokenizer = read("config.json"), read("processor_config.json"), read("tokenizer.json")
    ids = {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    entry = find_entry(config)
    assert entry is not None, folder
    parts = Ingredients(
        config=config,
        image_processor=processor.get("image_processor") or read("preprocessor_config.json"),
        processor=processor,
        special_tokens=read("tokenizer_config.json").get("extra_special_tokens") or {},
        dtype="float16" if config.get("torch_dtype") == "float16" else "bfloat16",
        token_id=lambda token: ids.get(token, 0),
        vocabulary=Vocabulary(lambda text: [], lambda token_ids: ""),
    )
    return build_family(entry, parts)


def recorded_items(model: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The files of recorded chats with one picture, and their recorded tensors."""
    for text in (DATA / "cases" / f"{model}.jsonl").read_text(encoding="utf-8").splitlines():
        case = json.loads(text)
        items = ((case["response"].get("features") or {}).get("kwargs_data") or {}).get("image") or []
        names = list(file_names(case["request"]))
        if case["status"] == 200 and len(items) == len(names) == 1 and items[0]:
            yield names[0], items[0]


def file_names(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if set(value) == {"$file"}:
            yield value["$file"]
        for inner in value.values():
            yield from file_names(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from file_names(inner)


def digests(family: Family, name: str, most: int) -> dict[str, str]:
    """SHA-256 of each tensor of a file; nothing for a picture of more pixels than ``most``."""
    picture = open_picture(file(name), DecodeBudget(ImageLimits()))
    if picture.width * picture.height > most:
        return {}
    found = {}
    for key, field in family.fields(picture.rgb()).items():
        digest = hashlib.sha256()
        for part in field.tensor.parts:
            digest.update(np.ascontiguousarray(part).tobytes())
        found[key] = digest.hexdigest()
    return found


def resizes() -> str:
    """One digest of resizes of random pictures to random sizes, with every kernel."""
    rng, digest = random.Random(1), hashlib.sha256()
    for index in range(_RESIZES):
        width, height, wide, tall = (rng.randint(1, 400) for _ in range(4))
        image = Image.frombytes("RGB", (width, height), rng.randbytes(3 * width * height))
        digest.update(resize(image, tall, wide, (BICUBIC, BILINEAR, LANCZOS)[index % 3]).tobytes())
    return digest.hexdigest()


if __name__ == "__main__":
    sys.exit(main())
