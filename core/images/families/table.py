"""The family of a model, by the architecture in its ``config.json``: the one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from core.errors import ConfigurationError
from core.images.families.family import Family, Ingredients


@dataclass(frozen=True)
class Entry:
    """Where a family is, and the image processors of transformers that it stands for; none: it has no such file."""

    module: str
    name: str
    processors: frozenset[str] = frozenset()
    # Modalities that the model takes besides images, which are refused here in other words than those it does not take.
    others: tuple[str, ...] = ()


def _entry(module: str, name: str, *processors: str, others: tuple[str, ...] = ()) -> Entry:
    return Entry(f"core.images.families.{module}", name, frozenset(processors), others)


_VIDEO = ("video",)
_QWEN = _entry("qwen_vl", "QwenVL", "Qwen2VLImageProcessor", others=_VIDEO)
_GLM = _entry("glm4v", "Glm4V", "Glm4vImageProcessor", "Glm46VImageProcessor", others=_VIDEO)
_LLAVA = _entry("llava", "Llava", "CLIPImageProcessor", "LlavaImageProcessor", "SiglipImageProcessor")
_PIXTRAL = _entry("mistral3", "PixtralHF", "PixtralImageProcessor")

FAMILIES: Mapping[str, Entry] = {
    "Qwen2VLForConditionalGeneration": _QWEN,
    "Qwen2_5_VLForConditionalGeneration": _QWEN,
    "Qwen3VLForConditionalGeneration": _QWEN,
    "Qwen3VLMoeForConditionalGeneration": _QWEN,
    "Qwen3_5ForConditionalGeneration": _QWEN,
    "Qwen3_5MoeForConditionalGeneration": _QWEN,
    "Glm4vForConditionalGeneration": _GLM,
    "Glm4vMoeForConditionalGeneration": _GLM,
    "LlavaForConditionalGeneration": _LLAVA,
    "Gemma3ForConditionalGeneration": _entry("gemma3", "Gemma3", "Gemma3ImageProcessor"),
    "Gemma4ForConditionalGeneration": _entry("gemma4", "Gemma4", "Gemma4ImageProcessor", others=_VIDEO),
    "Mistral3ForConditionalGeneration": _entry("mistral3", "Mistral3", "PixtralImageProcessor"),
    "Llama4ForConditionalGeneration": _entry("llama4", "Llama4", "Llama4ImageProcessor"),
    "InternVLChatModel": _entry("internvl", "InternVL", others=_VIDEO),
}


def find_entry(config: Mapping[str, Any]) -> Entry | None:
    """The entry of a model; None when its images are not known here."""
    names = config.get("architectures")
    entry = FAMILIES.get(str(names[0])) if isinstance(names, list) and names else None
    vision = config.get("vision_config")
    if entry is _LLAVA and isinstance(vision, Mapping) and vision.get("model_type") == "pixtral":
        return _PIXTRAL
    return entry


def build_family(entry: Entry, parts: Ingredients) -> Family:
    """The family of a model, with its settings.

    Raises:
        ConfigurationError: the model's files do not fit.
    """
    given = parts.image_processor.get("image_processor_type")
    named = str(given or "").removesuffix("Fast")
    if entry.processors and given is not None and named not in entry.processors:
        raise ConfigurationError(f"the image processor {given!r} is not known here for {entry.name}")
    try:
        family: Callable[[Ingredients], Family] = getattr(import_module(entry.module), entry.name)
        return family(parts)
    except (TypeError, ValueError, AttributeError, KeyError, ZeroDivisionError, OverflowError) as exc:
        raise ConfigurationError(f"the model's image settings cannot be used: {exc}") from exc
