"""The hash of an image: the key of the engine's caches, equal to the one that vLLM computes.

Source: ``vllm/multimodal/hasher.py`` and ``multimodal/processing/inputs.py`` of vLLM 0.33.0.
Every part is framed by its length and every container tagged by its kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from blake3 import blake3

_NONE, _SEQUENCE, _MAPPING, _LEAF = b"\x00", b"\x01", b"\x02", b"\x03"
# What the loaded image was converted to, when it was: vLLM's ``io_config``, in its order.
CONVERTED: Mapping[str, object] = {"image_mode": "RGB", "rgba_background_color": (255, 255, 255)}


def image_hash(model_id: str, data: bytes, converted: bool) -> str:
    """The hash of an image file for a model, in hexadecimal.

    Parameters
    ----------
    model_id:
        The model argument of the server, as given: a folder or a name.
    converted:
        Whether the image had to be converted to RGB (alpha, palettes, gray,
        CMYK); a rotation by EXIF does not count as a conversion.
    """
    image = {"io_config": CONVERTED, "data": data} if converted else data
    hasher = blake3()
    for piece in chain(
        _framed(b"image"), [_LEAF], _framed(b"image"), _value(image), _framed(b"model_id"), _value(model_id)
    ):
        hasher.update(piece)
    return hasher.hexdigest()


def _value(value: object) -> Iterator[bytes]:
    if value is None:
        yield _NONE
    elif isinstance(value, Mapping):
        yield _MAPPING + _length(len(value))
        for key, item in value.items():
            yield from _framed(str(key).encode())
            yield from _value(item)
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        yield _SEQUENCE + _length(len(value))
        for item in value:
            yield from _value(item)
    else:
        yield _LEAF
        yield from _framed(_leaf(value))


def _leaf(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, int):
        return value.to_bytes(8, "little", signed=True)
    raise TypeError(f"no hash of a {type(value).__name__}")


def _framed(part: bytes) -> Iterator[bytes]:
    yield _length(len(part))
    yield part


def _length(length: int) -> bytes:
    return length.to_bytes(8, "little")
