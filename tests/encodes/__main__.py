"""Millions of texts through the encoder that is used by default, beside ``tokenizers``: docs/results/encodes.md.

python -m tests.encodes [--encodes N] [--only NAME ...] [--again] [--write]

Every family with a fast encoder encodes its share of the texts of ``core.tokenizer.fast.corpus``, by the way that a
render takes: stretches between special tokens, those that are kept, the guard, the fast encoder. A family that was
measured is kept in build/encodes; --again forgets it. The exit status is 0 when no ids differ.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from core.bundle.folder import FolderFiles
from core.options import ModelOptions
from core.tokenizer import FastTokenizer, load_tokenizer
from core.tokenizer.fast.comparison import texts
from core.tokenizer.fast.load import encoder_of
from core.tokenizer.fast.proof import surroundings
from tests.encodes import page
from tests.support.models import FAMILIES, ROOT, model_folders

KEPT = ROOT / "build" / "encodes"
SEED = 3


def main() -> int:
    """0 when all ids are equal."""
    parser = argparse.ArgumentParser(description="compare the ids of millions of texts")
    parser.add_argument("--encodes", type=int, default=3_000_000, help="of all families together")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=FAMILIES)
    parser.add_argument("--again", action="store_true", help="measure what is kept anew")
    parser.add_argument("--write", action="store_true", help="write docs/results/encodes.md of all that is kept")
    options = parser.parse_args()
    KEPT.mkdir(parents=True, exist_ok=True)
    folders = model_folders()
    for family in options.only or FAMILIES:
        kept = KEPT / f"{family}.json"
        if options.again or not kept.exists():
            begun = time.monotonic()
            kept.write_text(json.dumps(measured(folders / family, options.encodes // len(page.ENCODED))))
            print(f"{family}: {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    results = {
        name: json.loads((KEPT / f"{name}.json").read_text()) for name in FAMILIES if (KEPT / f"{name}.json").exists()
    }
    written = page.text(results, *surroundings())
    print(written)
    if options.write:
        page.PATH.write_text(written, encoding="utf-8")
    return 1 if any(sum(one["different"].values()) for one in results.values()) else 0


def measured(folder: Path, encodes: int) -> dict[str, Any]:
    """How many texts of each kind were encoded, how many were left to ``tokenizers``, and how many ids differ."""
    tokenizer = load_tokenizer(FolderFiles(folder), cache_bytes=ModelOptions.encode_cache_bytes)
    assert isinstance(tokenizer, FastTokenizer)
    encoder = encoder_of(tokenizer, tokenizer.read_source())
    left = 0

    def ids(text: str) -> list[int] | None:
        nonlocal left
        found = None if encoder is None else encoder.ids(text)
        left += found is None
        return found

    if encoder is not None:
        tokenizer.encode_by(ids)
    encoded: Counter[str] = Counter()
    different: Counter[str] = Counter()
    characters = tokens = 0
    # Without a fast encoder there is one encoder: what is kept of its texts is compared, over some of them.
    for kind, text in texts(tokenizer, encodes if encoder is not None else encodes // 50, SEED):
        ours = tokenizer.encode(text, add_special_tokens=False)
        encoded[kind] += 1
        characters += len(text)
        tokens += len(ours)
        if ours != tokenizer.reference_ids(text):
            different[kind] += 1
            print(f"{folder.name}, {kind}: {text[:200]!r}", file=sys.stderr, flush=True)
    return {
        "fast": encoder is not None,
        "encodes": encoded,
        "different": different,
        "left": left,
        "characters": characters,
        "tokens": tokens,
    }


if __name__ == "__main__":
    sys.exit(main())
