"""The family of a model, by the architecture in its ``config.json``: the one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from core.errors import ConfigurationError
from core.images.families.family import Family, Ingredients
from core.images.families.gemma3 import Gemma3
from core.images.families.gemma4 import Gemma4
from core.images.families.glm4v import Glm4V
from core.images.families.internvl import InternVL
from core.images.families.llama4 import Llama4
from core.images.families.llava import Llava
from core.images.families.mistral3 import Mistral3, PixtralHF
from core.images.families.qwen_vl import QwenVL


@dataclass(frozen=True)
class Entry:
    """A family, and the image processors of transformers that it stands for; none where models have no such file.

    ``others`` are the modalities that the model takes besides images.
    """

    build: Callable[[Ingredients], Family]
    processors: frozenset[str] = frozenset()
    others: tuple[str, ...] = ()


_VIDEO = ("video",)
_PIXTRAL_PROCESSOR = frozenset(("PixtralImageProcessor",))
_QWEN = Entry(QwenVL, frozenset(("Qwen2VLImageProcessor",)), _VIDEO)
_GLM = Entry(Glm4V, frozenset(("Glm4vImageProcessor", "Glm46VImageProcessor")), _VIDEO)
_LLAVA = Entry(Llava, frozenset(("CLIPImageProcessor", "LlavaImageProcessor", "SiglipImageProcessor")))
_PIXTRAL = Entry(PixtralHF, _PIXTRAL_PROCESSOR)

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
    "Gemma3ForConditionalGeneration": Entry(Gemma3, frozenset(("Gemma3ImageProcessor",))),
    "Gemma4ForConditionalGeneration": Entry(Gemma4, frozenset(("Gemma4ImageProcessor",)), _VIDEO),
    "Mistral3ForConditionalGeneration": Entry(Mistral3, _PIXTRAL_PROCESSOR),
    "Llama4ForConditionalGeneration": Entry(Llama4, frozenset(("Llama4ImageProcessor",))),
    "InternVLChatModel": Entry(InternVL, others=_VIDEO),
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
        raise ConfigurationError(f"the image processor {given!r} is not one that this model's images are known with")
    try:
        return entry.build(parts)
    except (TypeError, ValueError, AttributeError, KeyError, ZeroDivisionError, OverflowError) as exc:
        raise ConfigurationError(f"the model's image settings cannot be used: {exc}") from exc
