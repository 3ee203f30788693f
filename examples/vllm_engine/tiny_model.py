"""A Qwen3 model that is small enough for any CPU: the real tokenizer, two layers, and no weights at all.

vLLM draws random weights for it (`--load-format dummy`), so what it says means nothing; that it says it, token by
token, is the point.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAME = "qwen3-tiny"
_SIZES = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
}


def build_tiny_model(out_dir: Path = ROOT / "build" / "models") -> Path:
    """Make the folder and return it; an old one is made anew."""
    from infra.models import build

    source = build("qwen3", out_dir)
    folder = out_dir.parent / "vllm-models" / NAME
    folder.mkdir(parents=True, exist_ok=True)
    for path in source.iterdir():
        if path.is_file():
            shutil.copyfile(path, folder / path.name)
    config = json.loads((source / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | _SIZES, indent=2) + "\n")
    return folder
