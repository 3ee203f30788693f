"""LLaVA 1.5 and models like it: one square picture, cut from the middle.

Sources: ``CLIPImageProcessor`` and ``LlavaImageProcessor`` of transformers 5.19.0; ``model_executor/models/llava.py``,
``clip.py`` and ``siglip.py`` of vLLM 0.33.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from core.errors import BadRequest, ConfigurationError
from core.images.families.family import CLIP_MEAN, CLIP_STD, Family, Ingredients
from core.images.levels import ITEM_SIZES, Levels
from core.images.resize import Window, resize
from core.images.tensors import Field, Fields

_BICUBIC = 3
# Pixels of a resized image, of which the middle is kept. vLLM knows no bound, and makes gigabytes of a thin line.
_LARGEST = 50_000_000
_SELECTED = {"default": -1, "full": 0}


class Llava(Family):
    """A picture of one size, and as many tokens for every image."""

    placeholder = "<image>"

    def __init__(self, parts: Ingredients) -> None:
        image = parts.config.get("image_token_index", 32000)
        self.target = [image]
        self._tokens = [image] * _token_count(parts)
        self._size = parts.setting("size", {"shortest_edge": 224})
        self._crop = sides(parts.setting("crop_size", {"height": 224, "width": 224}))
        named = parts.setting("image_processor_type", "CLIPImageProcessor")
        self._crops = parts.setting("do_center_crop", not named.startswith("Siglip"))
        self._kernel = parts.kernel(_BICUBIC)
        self._squares = named.startswith("Llava") and parts.setting("do_pad", False)
        self._background = tuple(int(value * 255) for value in parts.setting("image_mean", CLIP_MEAN))
        levels = parts.levels(CLIP_MEAN, CLIP_STD)
        if levels is None:
            raise ConfigurationError("an image processor that neither rescales nor normalizes is not supported")
        self._levels: Levels = levels

    def tokens(self, width: int, height: int) -> list[int]:
        tall, wide = self._resized(width, height)
        if tall * wide > _LARGEST:
            raise BadRequest(f"an image of {width}x{height} pixels is too long: it would be resized to {wide}x{tall}")
        return list(self._tokens)

    def feature_bytes(self, width: int, height: int) -> int:
        tall, wide = self._crop if self._crops else self._resized(width, height)
        return 3 * tall * wide * ITEM_SIZES[self._levels.dtype]

    def fields(self, image: Image.Image) -> Fields:
        if self._squares:
            image = _on_square(image, self._background)
        tall, wide = self._resized(image.width, image.height)
        if self._crops:
            pixels = _middle(image, tall, wide, self._kernel, self._crop)
        else:
            pixels = resize(image, tall, wide, self._kernel)
        return {"pixel_values": Field(self._levels(pixels), "batched")}

    def _resized(self, width: int, height: int) -> tuple[int, int]:
        if self._squares:
            width = height = max(width, height)
        short = self._size.get("shortest_edge")
        if short is None:
            return sides(self._size)
        long = int(short * max(width, height) / min(width, height))
        return (long, short) if width <= height else (short, long)


def _token_count(parts: Ingredients) -> int:
    vision = parts.section("vision_config")
    size, patch = vision.get("image_size", 336), vision.get("patch_size", 14)
    whole = (size // patch) ** 2
    if vision.get("model_type", "clip_vision_model") == "clip_vision_model":
        whole += 1
    strategy = parts.config.get("vision_feature_select_strategy", "default")
    if strategy == "class":
        return 1
    if strategy not in _SELECTED:
        raise ConfigurationError(f"vision_feature_select_strategy {strategy!r} is not known")
    return int(whole + _SELECTED[strategy])


def sides(size: Any) -> tuple[int, int]:
    """Height and width of a size as preprocessor configurations write it."""
    if isinstance(size, int):
        return size, size
    if isinstance(size, Mapping) and "height" in size and "width" in size:
        return size["height"], size["width"]
    raise ConfigurationError(f"the image processor's size must have a height and a width, not {size!r}")


def _middle(image: Image.Image, height: int, width: int, kernel: str, crop: tuple[int, int]) -> NDArray[np.uint8]:
    """The middle of an image at a size, on black where the crop is larger."""
    top, above, tall = _span(height, crop[0])
    left, before, wide = _span(width, crop[1])
    found = resize(image, height, width, kernel, Window(top, left, tall, wide))
    if (tall, wide) == crop:
        return found
    canvas = np.zeros((3, *crop), np.uint8)
    canvas[:, above : above + tall, before : before + wide] = found
    return canvas


def _span(size: int, crop: int) -> tuple[int, int, int]:
    """Where a crop of a length begins, what stands before it, and how much of it there is."""
    return (0, (crop - size) // 2, size) if crop > size else (int((size - crop) / 2.0), 0, crop)


def _on_square(image: Image.Image, background: tuple[int, ...]) -> Image.Image:
    side = max(image.size)
    square = Image.new("RGB", (side, side), background)
    square.paste(image, ((side - image.width) // 2, (side - image.height) // 2))
    image.close()
    return square
