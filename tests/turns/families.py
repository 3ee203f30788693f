"""Model families: a folder, a chat template, parsers, and how the model writes.

The project's own templates are short ones in each family's format. The
published ones are data of a registry package, which is never imported:
``pip install --no-deps trl==1.16.0``.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from core.model import Model
from infra.models.package_data import Package, read
from tests.checkpoint import formats
from tests.support.models import load, model_folders

PUBLISHED = Package("trl", "trl", "1.16.0")


@dataclass(frozen=True)
class Family:
    """One family.

    ``folder`` is a model folder, ``template`` the name of a published template
    (None: the folder's own). ``think`` says how reasoning is written: "whole"
    with its opening, "open" where the prompt has opened it, None where there is
    none. ``calls`` writes tool calls; with ``alone`` no text stands beside them,
    with ``single`` there is one call a turn. ``end`` and ``calls_end`` are the
    tokens that end an answer, and one that calls.
    """

    name: str
    folder: str
    template: str | None
    tool_parser: str
    reasoning_parser: str | None
    calls: formats.Writer
    end: str = "<|im_end|>"
    calls_end: str | None = None
    think: str | None = None
    alone: bool = False
    single: bool = False
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    def load(self, scratch: Path, **options: Any) -> Model:
        """The family's deployment; ``scratch`` is a folder for what it needs on disk."""
        folder = model_folders() / self.folder
        ends = scratch / self.name
        ends.mkdir(parents=True, exist_ok=True)
        tokens = json.loads((folder / "tokenizer.json").read_bytes())["added_tokens"]
        ids = {token["content"]: token["id"] for token in tokens}
        given = {"eos_token_id": [ids[end] for end in dict.fromkeys((self.end, self.calls_end or self.end))]}
        (ends / "config.json").write_text("{}")
        (ends / "generation_config.json").write_text(json.dumps(given))
        return load(
            folder,
            chat_template=None if self.template is None else published(self.template),
            tool_call_parser=self.tool_parser,
            reasoning_parser=self.reasoning_parser,
            enable_auto_tool_choice=True,
            default_chat_template_kwargs=dict(self.kwargs),
            generation_config=str(ends),
            state_keys=("a key of the tests, long enough",),
            **options,
        )


@cache
def published(name: str) -> str:
    """A published template's text."""
    return read(PUBLISHED, "chat_templates", f"{name}.jinja").decode()


def have_published() -> bool:
    return importlib.util.find_spec(PUBLISHED.module) is not None


_HERMES = formats.json_calls("<tool_call>\n", "\n</tool_call>")
_XML = formats.xml_calls("<tool_call>", "</tool_call>")
_LLAMA = formats.json_calls("", "", "parameters")

OWN: Sequence[Family] = (
    Family("qwen3, ours", "qwen3", None, "hermes", "qwen3", _HERMES, think="whole"),
    Family("qwen3.5, ours", "qwen3.5", None, "qwen3_coder", "qwen3", _XML, think="open"),
    Family("llama 3, ours", "llama3", None, "llama3_json", None, _LLAMA, "<|eot_id|>", alone=True, single=True),
    Family(
        "deepseek v3.1, ours", "deepseek", None, "deepseek_v31", None, formats.deepseek_v31, "<｜end▁of▁sentence｜>"
    ),
    Family(
        "mistral, ours", "mistral-spm", None, "mistral", None, formats.json_array("[TOOL_CALLS]"), "</s>", alone=True
    ),
)
OTHERS: Sequence[Family] = (
    Family("qwen 2.5", "qwen3", "qwen2_5", "hermes", None, _HERMES),
    Family("qwen 3", "qwen3", "qwen3", "hermes", "qwen3", _HERMES, think="whole"),
    Family("qwen 3 instruct 2507", "qwen3", "qwen3_instruct_2507", "hermes", None, _HERMES),
    Family("qwen 3 vl", "qwen3", "qwen3_vl", "hermes", None, _HERMES),
    Family("qwen 3.5", "qwen3.5", "qwen3_5_think", "qwen3_coder", "qwen3", _XML, think="open"),
    Family("qwen 3.8", "qwen3.5", "qwen3_8", "qwen3_coder", "qwen3", _XML, think="open"),
    Family("nemotron 3 nano", "families", "nemotron_3_nano", "qwen3_coder", "nemotron_v3", _XML, think="open"),
    Family(
        "glm 4 moe",
        "families",
        "glm4moe",
        "glm45",
        "glm45",
        formats.key_value("<tool_call>", "</tool_call>"),
        "<|user|>",
        "<|observation|>",
        think="whole",
    ),
    Family("llama 3.1", "llama3", "llama3_1", "llama3_json", None, _LLAMA, "<|eot_id|>", alone=True, single=True),
    Family(
        "lfm 2.5",
        "families",
        "lfm2_2_5_v2",
        "lfm2",
        None,
        formats.python_calls("<|tool_call_start|>[", "]<|tool_call_end|>"),
    ),
)
FAMILIES: Sequence[Family] = (*OWN, *OTHERS)
