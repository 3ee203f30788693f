"""What an engine checks of images before it looks at one: of ``features``, and of ``content_parts``."""

import base64
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

import msgspec

_SIZES = {"uint8": 1, "bfloat16": 2, "float16": 2, "float32": 4, "int64": 8}
_RAW_VIEW = 3
_PART_TYPES = ("image_url", "audio_url", "video_url")


def check_features(features: dict[str, Any], prompt_length: int) -> None:
    """Refuse features whose parts do not fit each other or the prompt.

    Raises:
        ValueError: says what does not fit; what is no base64 or msgpack included.
    """
    hashes, places = features.get("mm_hashes") or {}, features.get("mm_placeholders") or {}
    if set(hashes) != set(places):
        raise ValueError("mm_hashes and mm_placeholders must use the same modalities")
    ranges = []
    for modality, found in places.items():
        if len(found) != len(hashes[modality]):
            raise ValueError(f"{modality} mm_hashes and mm_placeholders must have the same length")
        ranges += [(place["offset"], place["offset"] + place["length"]) for place in found]
    ranges.sort()
    if any(start < 0 or end <= start or end > prompt_length for start, end in ranges):
        raise ValueError("mm_placeholders must remain within the token_ids sequence")
    if any(after[0] < before[1] for before, after in pairwise(ranges)):
        raise ValueError("mm_placeholders must be globally non-overlapping and sorted")
    data = features.get("kwargs_data")
    if data is None:
        raise ValueError("the image is not in the cache: kwargs_data is needed")
    for name in ("kwargs_data", "mm_metadata"):
        for modality, items in (features.get(name) or {}).items():
            if len(items) != len(hashes.get(modality, ())):
                raise ValueError(f"{modality} {name} and mm_hashes must have the same length")
            for item in items:
                if item is not None:
                    _check_item(item)


def check_content_parts(parts: Sequence[dict[str, Any]]) -> None:
    """Refuse media that an engine could not load: each part has a type, a URL, and in a data URL base64.

    Raises:
        ValueError: says what a part lacks.
    """
    for part in parts:
        url = part.get("url")
        if part.get("type") not in _PART_TYPES or not url or not isinstance(url, str):
            raise ValueError("a content part has a type and a url")
        if not isinstance(part.get("uuid"), str | None):
            raise ValueError("the uuid of a content part is a text")
        scheme = urlsplit(url).scheme
        if scheme == "data":
            head, _, data = url.partition(",")
            if not head.endswith(";base64") or not base64.b64decode(data, validate=True):
                raise ValueError("the data URL of a content part holds no base64")
        elif scheme not in ("http", "https"):
            raise ValueError(f"a content part is read from a data or http(s) URL, not from {scheme!r}")


def _check_item(text: str) -> None:
    """A tensor has as many bytes as its type and shape say."""
    for name, entry in msgspec.msgpack.decode(base64.b64decode(text, validate=True)).items():
        dtype, shape, data = entry["data"]
        if data.code != _RAW_VIEW or len(data.data) != math.prod(shape) * _SIZES[dtype]:
            raise ValueError(f"the tensor {name} is not what its type and shape say")
