"""An image file: opened by its header, decoded when its pixels are wanted, in the colours that models see.

Source: ``vllm/multimodal/image.py`` and ``media/image.py`` of vLLM 0.33.0: EXIF orientation is applied, transparency
goes onto white, everything else is converted to RGB, and of an animation the first picture is taken.

Files are hostile. Pillow is given a short list of formats, sizes are checked
before a pixel is decoded, and whatever it raises over a file is a 400.
"""

from __future__ import annotations

import io
import re
import warnings
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from PIL import ExifTags, Image, ImageOps

from core.errors import BadRequest
from core.images.bounds import MAX_JPEG_SCANS, DecodeBudget

# Of the 38 formats that vLLM reads, those that are sent: each one is a decoder that strangers can reach.
FORMATS = ("AVIF", "BMP", "GIF", "JPEG", "PNG", "TIFF", "WEBP")

_WHITE = (255, 255, 255)
_TURNED = frozenset(range(2, 9))
_SIDEWAYS = frozenset((5, 6, 7, 8))
_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG = b"\xff\xd8"
_START_OF_SCAN = b"\xff\xda"
# What may say more about a PNG's colours or orientation, and may stand behind its pixels.
_TELLING = frozenset((b"eXIf", b"tRNS", b"iTXt", b"zTXt", b"tEXt"))

# An object's address in a message, which vLLM takes out as well.
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")

# Sizes are bounded here, before anything is decoded.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)


@dataclass(frozen=True)
class Picture:
    """An opened file. ``width`` and ``height`` are those of the upright picture.

    ``converted`` says whether making it RGB takes a conversion, which is part of its hash.
    """

    data: bytes
    width: int
    height: int
    converted: bool
    _image: Image.Image

    def rgb(self) -> Image.Image:
        """The decoded picture: upright, RGB. The file is used up.

        Raises:
            BadRequest: it cannot be decoded.
        """
        try:
            image = _upright(self._image)
            converted = _is_converted(image)
            picture = _to_rgb(image)
        except Exception as exc:
            raise _refusal(exc) from exc
        if picture.size != (self.width, self.height) or converted != self.converted:
            raise BadRequest("Failed to load image: its header does not fit its pixels")
        return picture


def open_picture(data: bytes, budget: DecodeBudget) -> Picture:
    """Open a file by its header.

    Only a PNG that says something about itself behind its pixels is decoded for it.

    Raises:
        BadRequest: it is no image of a known format, or too large.
    """
    if data.startswith(_JPEG) and data.count(_START_OF_SCAN) > MAX_JPEG_SCANS:
        raise BadRequest(f"Failed to load image: a JPEG of more than {MAX_JPEG_SCANS} scans")
    try:
        image: Image.Image = Image.open(io.BytesIO(data), formats=FORMATS)
    except Exception as exc:
        raise _refusal(exc) from exc
    budget.charge(*image.size)
    try:
        if data.startswith(_PNG) and _tells_late(data):
            image = _upright(image)
            width, height = image.size
        else:
            width, height = _upright_size(image)
    except Exception as exc:
        raise _refusal(exc) from exc
    return Picture(data, width, height, _is_converted(image), image)


def _upright(image: Image.Image) -> Image.Image:
    """Decoded, and turned as its EXIF data say. As in vLLM, what fails in that leaves the picture as it is."""
    with suppress(Exception):
        image.load()
        if _orientation(image) in _TURNED:
            image = ImageOps.exif_transpose(image)
    image.load()
    return image


def _upright_size(image: Image.Image) -> tuple[int, int]:
    width, height = image.size
    with suppress(Exception):
        # A TIFF's size is turned already; a PNG whose header has no EXIF data would be decoded in search of them.
        searched = image.format != "PNG" or "exif" in image.info
        if searched and image.format != "TIFF":
            sideways = _orientation(image) in _SIDEWAYS
        else:
            sideways = image.format == "PNG" and _orientation_of(image) in _SIDEWAYS
        if sideways:
            return height, width
    return width, height


def _orientation(image: Image.Image) -> Any:
    return image.getexif().get(ExifTags.Base.Orientation, 1)


def _orientation_of(image: Image.Image) -> Any:
    """The orientation that the text chunks of a PNG's header give."""
    return Image.Image.getexif(image).get(ExifTags.Base.Orientation, 1)


def _tells_late(data: bytes) -> bool:
    """Whether a PNG has a chunk behind its pixels that bears on how it looks. Reads no chunk, only their headers."""
    place, behind = len(_PNG), False
    while place + 8 <= len(data):
        size, kind = int.from_bytes(data[place : place + 4], "big"), data[place + 4 : place + 8]
        if kind == b"IDAT":
            behind = True
        elif behind and kind in _TELLING:
            return True
        place += size + 12
    return False


def _is_converted(image: Image.Image) -> bool:
    return image.mode != "RGB" or "transparency" in image.info


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        whole = image if image.mode == "RGBA" else image.convert("RGBA")
        picture = Image.new("RGB", whole.size, _WHITE)
        picture.paste(whole, mask=whole.getchannel("A"))
        return picture
    return image if image.mode == "RGB" else image.convert("RGB")


def _refusal(exc: Exception) -> BadRequest:
    message = _ADDRESS.sub("", str(exc)) or type(exc).__name__
    # vLLM passes on what Pillow says of a value and names the step for everything else.
    return BadRequest(message if isinstance(exc, ValueError) else f"Failed to load image: {message}")
