"""Tekken folders of several versions, all made from the one that the model builder makes.

The published ones differ in their special tokens and their version; these have the same, under the names
`mistral-tekken` (version 3, as built) and `tekken-v11`, `tekken-v13`, `tekken-v15`.
"""

import shutil
from pathlib import Path
from typing import Any

import orjson

_TO_V7 = [
    *("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]"),
    *("[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]"),
    *("[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]"),
]
_V11 = [*_TO_V7, *(f"<SPECIAL_{i}>" for i in range(20, 32)), "[ARGS]", "[CALL_ID]"]
_V13 = [*_V11, "[THINK]", "[/THINK]"]
_V15 = [*_V13, "[MODEL_SETTINGS]", "[/MODEL_SETTINGS]"]
_EFFORT = {"type": "enum", "values": ["none", "high"], "accepts_none": True, "default": "none"}

SPECIAL_TOKENS: dict[str, list[str] | None] = {"v3": None, "v11": _V11, "v13": _V13, "v15": _V15}
"""What each version's file lists; version 3 lists none."""


def folder_name(version: str) -> str:
    return "mistral-tekken" if version == "v3" else f"tekken-{version}"


def vocabulary(raw: bytes, version: str) -> bytes:
    """A `tekken.json` of `version`, from that of version 3."""
    spec: dict[str, Any] = orjson.loads(raw)
    spec["config"]["version"] = version
    listed = SPECIAL_TOKENS[version]
    if listed is not None:
        spec["special_tokens"] = [{"rank": i, "token_str": t, "is_control": True} for i, t in enumerate(listed)]
    if version == "v15":
        spec["model_settings_builder"] = {"reasoning_effort": _EFFORT}
    return orjson.dumps(spec)


def make_folders(built: Path, into: Path) -> None:
    """Write the folder of every version below `into`; `built` is the model builder's folder."""
    raw = (built / "tekken.json").read_bytes()
    for version in SPECIAL_TOKENS:
        folder = into / folder_name(version)
        folder.mkdir(parents=True)
        for file in ("config.json", "generation_config.json"):
            shutil.copy(built / file, folder)
        (folder / "tekken.json").write_bytes(raw if version == "v3" else vocabulary(raw, version))
