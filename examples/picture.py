"""The demo's picture: drawn here, and shown in a terminal."""

from __future__ import annotations

import io

from PIL import Image, ImageDraw
from rich.text import Text

WIDTH, HEIGHT = 448, 308
_COLUMNS = 56
_UPPER_HALF = "▀"


def drawn() -> bytes:
    """A sun over two hills and a lake, as a PNG file."""
    image = Image.new("RGB", (WIDTH, HEIGHT))
    draw = ImageDraw.Draw(image)
    for y in range(HEIGHT):
        draw.line([(0, y), (WIDTH, y)], fill=(120 - y // 4, 180 - y // 6, 235 - y // 3))
    draw.ellipse([300, 30, 380, 110], fill=(255, 214, 80))
    draw.polygon([(0, 220), (130, 90), (280, 230)], fill=(70, 120, 80))
    draw.polygon([(160, 240), (320, 130), (448, 240)], fill=(50, 95, 65))
    draw.rectangle([0, 225, WIDTH, HEIGHT], fill=(45, 100, 160))
    for y in range(232, HEIGHT, 14):
        draw.line([(310 - y % 9 * 4, y), (372 + y % 7 * 3, y)], fill=(240, 215, 130), width=3)
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def shown(data: bytes) -> Text:
    """A picture as coloured half blocks, two pixels a character."""
    with Image.open(io.BytesIO(data)) as image:
        rows = _COLUMNS * image.height // image.width // 2 * 2
        small = image.convert("RGB").resize((_COLUMNS, rows))
    text = Text()
    for y in range(0, rows, 2):
        for x in range(_COLUMNS):
            upper, lower = (_hex(small.getpixel((x, y + half))) for half in (0, 1))
            text.append(_UPPER_HALF, f"{upper} on {lower}")
        text.append("\n")
    return text


def _hex(colour: object) -> str:
    assert isinstance(colour, tuple)
    return "#" + "".join(f"{channel:02x}" for channel in colour)
