"""What does the ``fastokens`` package give: its encode beside that of ``tokenizers``, and are the ids equal?

``fastokens`` is the encoder of ``vllm-rs``, and the fast encoder here. Both packages
run in one process of their own for each model (``benchmarks.harness.fastokens_child``).

python -m benchmarks.encoder_speed STRINGS_OF_EACH_KIND  # equality over a larger corpus, and the strings that differ
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from benchmarks.harness.setups import ROOT
from infra.models import MODELS, build

# Of each of the corpus' fourteen kinds: 21,000 strings a model, each encoded in two ways.
EACH = 1_500
# What the rows keep of the child's figures.
_KEPT = (
    "load_ms", "fast_load_ms", "load_mb", "fast_load_mb",
    "fresh_815_ms", "no_offsets_fresh_815_ms", "fast_fresh_815_ms",
    "fresh_8k_ms", "no_offsets_fresh_8k_ms", "fast_fresh_8k_ms",
    "cpu_815_ms", "fast_cpu_815_ms",
)  # fmt: skip
Json = dict[str, Any]


def run(each: int = EACH) -> list[Json]:
    """One row for each model folder with a ``tokenizer.json``."""
    return [_row(compared) for compared in compare(each)]


def compare(each: int) -> list[Json]:
    """What the child says of each model."""
    found = []
    for name, model in MODELS.items():
        if model.tokenizer_file != "tokenizer.json":
            continue
        folder = build(name, ROOT / "build" / "models")
        command = [sys.executable, "-m", "benchmarks.harness.fastokens_child", str(folder), str(each)]
        environ = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, text=True, check=True)
        found.append(json.loads(done.stdout))
    return found


def _row(one: Json) -> Json:
    if "refused" in one:
        return {"model": one["model"], "strings": 0, "refused": one["refused"]}
    both = (one, one["flagged"])
    return {
        "model": one["model"],
        "strings": sum(part["strings"] for part in both),
        "encodes": sum(part["encodes"] for part in both),
        "different": sum(part["different"] for part in both),
        "long_s": sum(part["long_s"] for part in both),
        "decodes": sum(part["decodes"] for part in both),
        "decoded_otherwise": sum(part["decoded_otherwise"] for part in both),
        "kinds": sorted({kind for part in both for kind in part["by_kind"]}),
        "examples": [shown for part in both for shown in part["shown"]][:3],
        **{name: one[name] for name in _KEPT},
        "times": one["fresh_815_ms"] / one["fast_fresh_815_ms"],
        "times_8k": one["fresh_8k_ms"] / one["fast_fresh_8k_ms"],
    }


def main() -> None:
    for one in compare(int(sys.argv[1]) if len(sys.argv) > 1 else EACH):
        print(json.dumps(one, ensure_ascii=True, indent=1), flush=True)


if __name__ == "__main__":
    main()
