"""Mistral 3 (Mistral Small 3.1 and later) and Pixtral in Hugging Face's form: rows of patches with a break after each.

Sources: ``PixtralImageProcessor`` of transformers 5.19.0; ``model_executor/models/mistral3.py``, ``pixtral.py`` and
``llava.py`` of vLLM 0.33.0. Mistral 3 is normalized on the device, Pixtral is not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from PIL import Image

from core.errors import BadRequest
from core.images.families.family import CLIP_MEAN, CLIP_STD, Family, Ingredients
from core.images.families.llava import sides
from core.images.levels import ITEM_SIZES
from core.images.resize import resize
from core.images.tensors import Field, Fields, array_tensor

_BICUBIC = 3


class Mistral3(Family):
    """The placeholder's breaks have no embedding."""

    dense = False
    _on_device = True
    _default_merge = 2

    def __init__(self, parts: Ingredients) -> None:
        vision, processor = parts.section("vision_config"), parts.processor
        merge = parts.config.get("spatial_merge_size", self._default_merge)
        self._longest = parts.setting("size", {"longest_edge": 1024})
        # Pixels are cut by the processor's settings, tokens counted by the model's.
        self._step = processor.get("patch_size", 16) * processor.get("spatial_merge_size", 1)
        self._counted = self._limit(vision), vision.get("patch_size", 16) * merge
        self._kernel = parts.kernel(_BICUBIC)
        self._levels = None if self._on_device else parts.levels(CLIP_MEAN, CLIP_STD)
        self._image: int = parts.config.get("image_token_index", 10)
        self.target = [self._image]
        self._break = parts.id_of(processor.get("image_break_token", "[IMG_BREAK]"))
        self._end = parts.id_of(processor.get("image_end_token", "[IMG_END]"))

    def _limit(self, vision: Mapping[str, Any]) -> int:
        return int(self._longest.get("longest_edge", vision.get("image_size", 1540)))

    def tokens(self, width: int, height: int) -> list[int]:
        limit, step = self._counted
        tall, wide = _fitted(width, height, (limit, limit), step)
        row = [self._image] * (wide // step) + [self._break]
        tokens: list[int] = row * (tall // step)
        tokens[-1] = self._end
        return tokens

    def feature_bytes(self, width: int, height: int) -> int:
        tall, wide = self._resized(width, height)
        return 3 * tall * wide * (1 if self._levels is None else ITEM_SIZES[self._levels.dtype])

    def fields(self, image: Image.Image) -> Fields:
        tall, wide = self._resized(image.width, image.height)
        pixels = resize(image, tall, wide, self._kernel)
        tensor = array_tensor(pixels) if self._levels is None else self._levels(pixels)
        return {"pixel_values": Field(tensor, "batched")}

    def _resized(self, width: int, height: int) -> tuple[int, int]:
        edge = self._longest.get("longest_edge")
        return _fitted(width, height, sides(self._longest) if edge is None else (edge, edge), self._step)


class PixtralHF(Mistral3):
    """Pixtral as a LLaVA model."""

    placeholder = "<image>"
    _on_device = False
    _default_merge = 1

    def _limit(self, vision: Mapping[str, Any]) -> int:
        return int(vision.get("image_size", 1024))


def _fitted(width: int, height: int, largest: tuple[int, int], step: int) -> tuple[int, int]:
    """Height and width within ``largest``, rounded up to multiples of ``step``."""
    ratio = max(height / largest[0], width / largest[1])
    if ratio > 1:
        height, width = math.floor(height / ratio), math.floor(width / ratio)
    if not height or not width:
        raise BadRequest(f"an image that is reduced to {width}x{height} pixels has nothing left to see")
    return ((height - 1) // step + 1) * step, ((width - 1) // step + 1) * step
