"""Files that are no pictures, or more than they seem: each is a 400, before it costs anything."""

from __future__ import annotations

import base64
import io
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from PIL import Image
from starlette.testclient import TestClient

from tests.images.recorded import file

_SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><rect width="9" height="9"/></svg>'
_PNG = b"\x89PNG\r\n\x1a\n"


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, pixels: bytes = b"", *more: bytes) -> bytes:
    """A PNG with a header of any size and whatever pixels."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return _PNG + header + b"".join(more) + chunk(b"IDAT", zlib.compress(pixels)) + chunk(b"IEND", b"")


def saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def scans(count: int) -> bytes:
    """A progressive JPEG with the same last scan over and over."""
    data = saved(Image.new("RGB", (64, 64)), "JPEG", progressive=True)
    last = data.rindex(b"\xff\xda")
    return data[:last] + data[last:-2] * count + data[-2:]


def ask(client: TestClient, data: bytes, **fields: Any) -> tuple[int, Any]:
    url = f"data:image/png;base64,{base64.b64encode(data).decode()}"
    part = {"type": "image_url", "image_url": {"url": url}}
    body = {"messages": [{"role": "user", "content": [part]}], "max_tokens": 1, **fields}
    response = client.post("/v1/chat/completions/render", json=body, headers={"accept-encoding": "identity"})
    return response.status_code, response.json()


REFUSED = {
    "empty": b"",
    "text": b"hello",
    "svg": _SVG,
    "pdf": b"%PDF-1.7\n1 0 obj\n<<>>\nendobj\n",
    "postscript": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
    "netpbm, which vLLM reads": b"P6 1 1 255\n\0\0\0",
    "a JPEG's first bytes": file("jpg_640x480")[:200],
    "a PNG cut in its pixels": file("png_1024x1024")[:-1000],
    "a PNG without pixels": png(64, 64),
    "a PNG with a wrong sum": png(64, 64)[:29] + b"\0\0\0\0" + png(64, 64)[33:],
    "a bomb of 100 megapixels": png(10_000, 10_000, bytes(10_000)),
    "a bomb that Pillow refuses": png(60_000, 60_000),
    "sides of four billion": png(0xFFFFFFFF, 0xFFFFFFFF),
    "no width": png(0, 5),
    "one by 60,000": png(1, 60_000, bytes(4 * 60_000)),
    "60,000 by one": png(60_000, 1, bytes(1 + 3 * 60_000)),
    "text chunks that expand": png(8, 8, bytes(25 * 8), chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(1 << 26)))),
    "a JPEG of a thousand scans": scans(1000),
    "a TIFF header": b"II*\0\x08\0\0\0\xff\xff" + b"\xff" * 100,
    "a WebP header": b"RIFF\xff\xff\xff\xffWEBPVP8 " + b"\0" * 40,
    "a GIF header": b"GIF89a\xff\xff\xff\xff\x80\0\0" + b"\0" * 20,
    "an AVIF header": b"\0\0\0\x1cftypavif" + b"\0" * 60,
    "a BMP of odd depth": b"BM" + struct.pack("<IHHIIiiHH", 60, 0, 0, 54, 40, 9, 9, 1, 77) + bytes(40),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("model", ["qwen2.5-vl", "gemma3"])
def test_refused(name: str, model: str, image_service: Callable[..., TestClient]) -> None:
    if model == "gemma3" and "60,000" in name:
        # A thin picture is one to Gemma 3, which makes it square.
        assert ask(image_service(model), REFUSED[name])[0] == 200
        return
    status, answer = ask(image_service(model), REFUSED[name])
    assert (status, answer["error"]["type"]) == (400, "BadRequestError")
    assert answer["error"]["message"]


def test_an_animation_costs_its_first_picture(image_service: Callable[..., TestClient]) -> None:
    frames = [Image.new("RGB", (64, 48), (index % 256, 0, 0)) for index in range(1000)]
    animation = saved(frames[0], "GIF", save_all=True, append_images=frames[1:])
    single = saved(frames[0], "GIF")
    tensors = []
    for data in (animation, single):
        status, answer = ask(image_service("qwen2.5-vl"), data)
        assert status == 200
        tensors.append(answer["features"]["kwargs_data"])
    assert tensors[0] == tensors[1]


def test_a_refused_bomb_takes_no_memory(image_service: Callable[..., TestClient]) -> None:
    client = image_service("qwen2.5-vl")
    ask(client, REFUSED["a bomb of 100 megapixels"])
    tracemalloc.start()
    try:
        ask(client, REFUSED["a bomb of 100 megapixels"])
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


def test_many_small_pictures_are_refused_before_they_are_made(image_service: Callable[..., TestClient]) -> None:
    """A picture of one pixel is 5 MB of features to Gemma 3."""
    url = f"data:image/png;base64,{base64.b64encode(file('png_1x1')).decode()}"
    parts = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "x"}] * 60
    body = {"messages": [{"role": "user", "content": parts}], "max_tokens": 1}
    response = image_service("gemma3").post("/v1/chat/completions/render", json=body)
    assert response.status_code == 400
    assert "bytes of features" in response.json()["error"]["message"]


def test_a_thousand_pictures_are_too_many(image_service: Callable[..., TestClient]) -> None:
    parts = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,aGVsbG8="}}] * 1000
    body = {"messages": [{"role": "user", "content": parts}], "max_tokens": 1}
    response = image_service("qwen2.5-vl").post("/v1/chat/completions/render", json=body)
    message = "At most 999 image(s) may be provided in one prompt. (parameter=image)"
    assert (response.status_code, response.json()["error"]["message"]) == (400, message)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP", "AVIF"])
def test_damage_anywhere_is_no_fault_of_ours(kind: str, image_service: Callable[..., TestClient]) -> None:
    client = image_service("qwen2.5-vl")
    data = saved(Image.linear_gradient("L").resize((40, 30)).convert("RGB"), kind)
    for place in range(0, len(data), max(1, len(data) // 40)):
        for broken in (data[:place], data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]):
            status, _ = ask(client, broken)
            assert status in (200, 400)
