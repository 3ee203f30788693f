"""The model folders that the suite's outputs are read with; three of them are made here from those of ``infra.models``."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

# Control tokens of tekken vocabularies by their rank; what is not named is <SPECIAL_n>.
_TEKKEN = [
    "<unk>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CALLS]",
    "[IMG]",
    "<pad>",
    "[IMG_BREAK]",
    "[IMG_END]",
    "[PREFIX]",
    "[MIDDLE]",
    "[SUFFIX]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
]
_ARGUMENTS = {32: "[ARGS]", 33: "[CALL_ID]"}
_THINKING = {34: "[THINK]", 35: "[/THINK]"}
# What DeepSeek V3.2 calls tokens that its elders have under other names.
_DEEPSEEK_V32 = {
    128793: "｜DSML｜",
    128798: "<think>",
    128799: "</think>",
    128821: "<｜place▁holder▁no▁998｜>",
    128822: "<｜place▁holder▁no▁999｜>",
    128825: "<｜place▁holder▁no▁997｜>",
}


def make_folders(models: Path, out: Path) -> None:
    """Write ``tekken-v11``, ``tekken-v13`` and ``deepseek-v32`` into ``out``; ``models`` holds the folders of the project."""
    _tekken(models / "mistral-tekken", out / "tekken-v11", "v11", _ARGUMENTS)
    _tekken(models / "mistral-tekken", out / "tekken-v13", "v13", {**_ARGUMENTS, **_THINKING})
    _deepseek(models / "deepseek", out / "deepseek-v32")


def _tekken(source: Path, target: Path, version: str, more: dict[int, str]) -> None:
    _copy(source, target, "tekken.json")
    vocabulary = json.loads((source / "tekken.json").read_text(encoding="utf-8"))
    names = {**dict(enumerate(_TEKKEN)), **more}
    vocabulary["config"]["version"] = version
    vocabulary["special_tokens"] = [
        {"rank": rank, "token_str": names.get(rank, f"<SPECIAL_{rank}>"), "is_control": True} for rank in range(1000)
    ]
    (target / "tekken.json").write_text(json.dumps(vocabulary), encoding="utf-8")


def _deepseek(source: Path, target: Path) -> None:
    _copy(source, target, "tokenizer.json")
    tokenizer = json.loads((source / "tokenizer.json").read_text(encoding="utf-8"))
    for token in tokenizer["added_tokens"]:
        if token["id"] in _DEEPSEEK_V32:
            token["content"], token["special"] = _DEEPSEEK_V32[token["id"]], False
    vocabulary = tokenizer["model"]["vocab"]
    kept = {text: number for text, number in vocabulary.items() if number not in _DEEPSEEK_V32}
    moved = {number for number in vocabulary.values() if number in _DEEPSEEK_V32}
    tokenizer["model"]["vocab"] = {**kept, **{_DEEPSEEK_V32[number]: number for number in sorted(moved)}}
    (target / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False), encoding="utf-8")


def _copy(source: Path, target: Path, without: str) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for file in source.iterdir():
        if file.name != without and file.is_file():
            shutil.copy(file, target / file.name)
