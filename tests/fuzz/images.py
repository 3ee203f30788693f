"""Hostile pictures: files that are none, are more than they seem, or lie elsewhere.

Sent as data URLs to a deployment that takes images, and as URLs of hosts that
it may fetch from: every private address, in every spelling, at once and by
redirect. What must hold is what holds for every request (``deployment``); and
nothing may connect to what is not public, and no request may take more memory
than pictures of the allowed size do.
"""

from __future__ import annotations

import base64
import io
import json
import random
import socket
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import patch

from PIL import Image

from handlers import image_endpoints
from handlers.images import fetcher_of
from handlers.media_fetch import MediaFetcher
from handlers.settings import Settings
from tests.fuzz.deployment import Deployment, Request, Tally
from tests.fuzz.deployment import wrong as wrong_with_any
from tests.images.recorded import DATA
from tests.support.mutations import mutate_json

RENDER, MESSAGES, TOKENIZE = "/v1/chat/completions/render", "/v1/messages/render", "/tokenize"
MAX_PIXELS = 1_000_000
# Ten bytes a pixel; and two pictures cut into tiles take 40 MB of text whatever their size, which the client here
# holds twice more, as bytes and as JSON. The smallest bomb takes 300 MB when it is decoded.
MOST_BYTES = 10 * MAX_PIXELS + 160 * 2**20

HOST = "pictures.example"
PRIVATE = (
    "127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "localhost", "0.0.0.0", "10.0.0.1", "100.64.0.1",
    "169.254.169.254", "169.254.170.2", "172.16.0.1", "192.168.0.1", "192.0.0.8", "192.0.2.1", "198.18.0.1",
    "198.51.100.1", "203.0.113.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "[::]", "[::1]", "[fc00::1]",
    "[fd00:ec2::254]", "[fe80::1]", "[ff02::1]", "[2001:db8::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
    "[2002:7f00:1::]", "[64:ff9b::7f00:1]", "[64:ff9b:1::1]", "[2001:0:7f00:1::]",
)  # fmt: skip
"""Hosts that lead to no public address."""
_KINDS = ("PNG", "JPEG", "GIF", "WEBP", "TIFF", "BMP", "AVIF")
_SIDES = (0, 1, 2, 27, 28, 65_535, 60_000, 2**31 - 1, 2**31, 2**32 - 1)
_DISGUISED = (
    b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg" width="99999" height="99999"/>',
    b'<svg xmlns="http://www.w3.org/2000/svg"><image href="http://169.254.169.254/"/></svg>',
    b"%PDF-1.7\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF",
    b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 99999 99999\n(/etc/passwd) run\n",
    b"\xc5\xd0\xd3\xc6" + bytes(60),
    b"\xd7\xcd\xc6\x9a" + bytes(60),
    b"PK\x03\x04" + bytes(60),
    b"<html><img src=x></html>",
    b"P6 99999 99999 255\n",
    b"SIMPLE  =                    T",
    b"8BPS\0\1" + bytes(40),
    b"\x1f\x8b\x08" + bytes(40),
    b"#define x_width 99999\n#define x_height 99999\nstatic char x_bits[] = {0};",
)


class Generator:
    """Requests with hostile pictures for one model; the same seed gives the same ones."""

    def __init__(self, model: str, seed: int) -> None:
        self.model = model
        self.rng = random.Random(seed)
        small = [path for path in sorted((DATA / "files").iterdir()) if path.stat().st_size < 200_000]
        self._honest = [path.read_bytes() for path in small] + [_saved(_gradient(90, 61), kind) for kind in _KINDS]

    def __iter__(self) -> Iterator[Request]:
        makers: list[tuple[Callable[[], bytes], int]] = [
            (self.damaged, 30), (self.cut, 10), (self.resized, 20), (self.bomb, 10), (self.thin, 5), (self.frames, 2),
            (self.disguised, 10), (self.metadata, 5), (self.honest, 8),
        ]  # fmt: skip
        kinds, weights = [maker for maker, _ in makers], [weight for _, weight in makers]
        while True:
            if self.rng.random() < 0.2:
                yield self.request("image request", self.body([self.data_url(self.honest())]), altered=True)
                continue
            maker = self.rng.choices(kinds, weights)[0]
            urls = [self.data_url(maker()) for _ in range(self.rng.choice((1, 1, 1, 2)))]
            yield self.request(f"image {maker.__name__}", self.body(urls))

    def request(self, kind: str, body: Any, altered: bool = False) -> Request:
        path = RENDER
        for _ in range(self.rng.randint(1, 3) if altered else 0):
            body = mutate_json(self.rng, body)
        if self.rng.random() < 0.05:
            path = self.rng.choice((MESSAGES, TOKENIZE))
        return Request(kind, "POST", path, json.dumps(body).encode(), {"content-type": "application/json"})

    def body(self, urls: Sequence[str]) -> dict[str, Any]:
        parts: list[Any] = [{"type": "text", "text": "Look."}]
        for url in urls:
            part = {"type": "image_url", "image_url": {"url": url}}
            if self.rng.random() < 0.1:
                part["uuid"] = self.rng.choice(("", "a", "\x00", "é" * 1000))
            parts += [part, {"type": "text", "text": "What is it?"}]
        payload = self.rng.choice(("tensors", "tensors", "none", "content_parts"))
        messages = [{"role": "user", "content": parts}]
        return {"model": self.model, "messages": messages, "max_tokens": 4, "mm_payload": payload}

    def data_url(self, data: bytes) -> str:
        """Base64 as it should be, and now and then not quite."""
        text = base64.b64encode(data).decode()
        if self.rng.random() < 0.03:
            at = self.rng.randrange(len(text) + 1)
            text = text[:at] + self.rng.choice(("=", "\n", "%3D", "-", "é", "")) + text[at + 1 :]
        return f"data:{self.rng.choice(('image/png', 'image/jpeg', 'text/html', ''))};base64,{text}"

    def honest(self) -> bytes:
        return self.rng.choice(self._honest)

    def damaged(self) -> bytes:
        """A few bytes changed: in the header, where sizes and offsets are, more often than behind it."""
        data = bytearray(self.honest())
        for _ in range(self.rng.choice((1, 1, 2, 8, 40))):
            end = len(data) if self.rng.random() < 0.4 else min(len(data), 120)
            data[self.rng.randrange(end)] = self.rng.choice((0, 1, 0x7F, 0x80, 0xFF, self.rng.randrange(256)))
        return bytes(data)

    def cut(self) -> bytes:
        data = self.honest()
        return data[: self.rng.randrange(len(data))]

    def resized(self) -> bytes:
        """A header that names another size, right in itself: sums are made anew."""
        width, height = self.rng.choice(_SIDES), self.rng.choice(_SIDES)
        kind = self.rng.randrange(4)
        if kind == 0:
            return png(width, height, bytes(self.rng.choice((0, 100, 10_000))), depth=self.rng.choice((1, 8, 16)))
        if kind == 1:
            data = bytearray(_saved(_gradient(90, 61), "JPEG"))
            at = data.find(b"\xff\xc0")
            data[at + 5 : at + 9] = struct.pack(">HH", height & 0xFFFF, width & 0xFFFF)
        elif kind == 2:
            data = bytearray(_saved(_gradient(90, 61), "GIF"))
            data[6:10] = struct.pack("<HH", width & 0xFFFF, height & 0xFFFF)
        else:
            data = bytearray(_saved(_gradient(90, 61), "BMP"))
            data[18:26] = struct.pack("<II", width, height)
        return bytes(data)

    def bomb(self) -> bytes:
        """Little data for as many pixels as are allowed, or for some more."""
        side = self.rng.choice((900, 1_000, 1_001, 10_000, 30_000))
        if self.rng.random() < 0.3:
            text = b"zTXt", b"a\0\0" + zlib.compress(bytes(1 << 24), 9)
            return png(8, 8, bytes(25 * 8), more=chunk(*text))
        return png(side, side, bytes(side * (1 + 3 * side) if side < 2_000 else 10_000))

    def thin(self) -> bytes:
        long = self.rng.choice((199, 200, 201, 60_000))
        width, height = self.rng.choice(((1, long), (long, 1), (3, long), (long, 3)))
        return png(width, height, bytes(height * (1 + 3 * width)))

    def frames(self) -> bytes:
        """An animation of many pictures, of which the first is taken."""
        count = self.rng.choice((2, 100, 1_000))
        pictures = [Image.new("P", (9, 8), index % 200) for index in range(count)]
        kind = self.rng.choice(("GIF", "PNG", "TIFF", "WEBP")) if count < 1_000 else self.rng.choice(("GIF", "PNG"))
        out = io.BytesIO()
        pictures[0].save(out, kind, save_all=True, append_images=pictures[1:])
        return out.getvalue()

    def disguised(self) -> bytes:
        head = self.rng.choice(
            (b"", b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0", b"GIF89a", b"RIFF\xff\xff\xff\xffWEBP")
        )
        return head + self.rng.choice(_DISGUISED)

    def metadata(self) -> bytes:
        """EXIF data that are broken, or lead in circles; colour profiles that are none."""
        kind = self.rng.choice(("JPEG", "PNG", "WEBP"))
        exif = b"Exif\0\0II*\0\x08\0\0\0" + self.rng.randbytes(self.rng.choice((0, 2, 14, 60)))
        if self.rng.random() < 0.5:
            exif = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x69\x87\x04\0\x01\0\0\0\x08\0\0\0\x08\0\0\0"
        out = io.BytesIO()
        _gradient(30, 20).save(out, kind, exif=exif, icc_profile=self.rng.randbytes(40))
        return out.getvalue()


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, pixels: bytes, depth: int = 8, more: bytes = b"") -> bytes:
    """A PNG with a header of any size and whatever pixels."""
    head = struct.pack(">IIBBBBB", width & 0xFFFFFFFF, height & 0xFFFFFFFF, depth, 2, 0, 0, 0)
    body = chunk(b"IHDR", head) + more + chunk(b"IDAT", zlib.compress(pixels)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def _gradient(width: int, height: int) -> Image.Image:
    return Image.linear_gradient("L").resize((width, height)).convert("RGB")


def _saved(image: Image.Image, kind: str) -> bytes:
    out = io.BytesIO()
    image.save(out, kind)
    return out.getvalue()


class _Origin(BaseHTTPRequestHandler):
    """Redirects to whatever its path says, or sends what is no picture, or too much of it."""

    def do_GET(self) -> None:
        kind, _, rest = self.path.lstrip("/").partition("/")
        self.send_response(302 if kind == "to" else 200)
        if kind == "to":
            self.send_header("Location", rest)
        elif kind == "long":
            self.send_header("Content-Length", "99999999999")
        self.end_headers()
        if kind != "to":
            self.wfile.write(b"no picture")

    def log_message(self, *args: Any) -> None:
        pass


class Trap:
    """A listener on a private address that nobody may connect to; ``caught`` counts who did."""

    def __init__(self) -> None:
        self.caught = 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            try:
                line, _ = self._socket.accept()
            except OSError:
                return
            self.caught += 1
            line.close()

    def close(self) -> None:
        self._socket.close()


@contextmanager
def origin() -> Iterator[tuple[int, Trap]]:
    """A public-seeming server's port, and a trap. Only names are made up: ``HOST`` leads to the server, and may be
    reached; every other name and address is looked up and judged as ever."""
    server, trap = ThreadingHTTPServer(("127.0.0.1", 0), _Origin), Trap()
    server.daemon_threads = True
    port = server.server_address[1]
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def fetcher(settings: Settings) -> MediaFetcher:
        real = fetcher_of(settings)

        def look_up(host: str, at: int) -> Sequence[str]:
            return ["198.18.0.77"] if host == HOST else real.resolve(host, at)

        return MediaFetcher(
            real.domains, 5, real.max_bytes, real.max_redirects, resolve=look_up,
            allowed=lambda address: address == "198.18.0.77" or real.allowed(address),
        )  # fmt: skip

    def connect(address: tuple[str, int], *given: Any, **named: Any) -> socket.socket:
        return genuine(("127.0.0.1", port) if address[0] == "198.18.0.77" else address, *given, **named)

    genuine = socket.create_connection
    with (
        patch.object(image_endpoints, "fetcher_of", fetcher),
        patch("handlers.media_fetch.socket.create_connection", connect),
    ):
        try:
            yield port, trap
        finally:
            server.shutdown()
            server.server_close()
            trap.close()


def urls(trap: Trap) -> Iterator[str]:
    """Addresses that must not be reached: each at once, by redirect, and by two of them."""
    for host in PRIVATE:
        for scheme in ("http", "https"):
            there = f"{scheme}://{host}:{trap.port}/latest/meta-data"
            yield from (there, f"http://{HOST}/to/{there}", f"http://{HOST}/to/http://{HOST}/to/{there}")
    for there in (
        f"http://{HOST}@127.0.0.1:{trap.port}/", f"http://127.0.0.1:{trap.port}#@{HOST}/", f"http://{HOST}\\@127.0.0.1/",
        f"//127.0.0.1:{trap.port}/", f"file://127.0.0.1:{trap.port}/etc/passwd", f"ftp://127.0.0.1:{trap.port}/a",
        f"gopher://127.0.0.1:{trap.port}/_", f"http://elsewhere.example:{trap.port}/",
    ):  # fmt: skip
        yield from (there, f"http://{HOST}/to/{there}")
    yield from (f"http://{HOST}/no-picture", f"http://{HOST}/long/1", f"http://{HOST}/to/")


def wrong(status: int, body: Any) -> str:
    """What is wrong with an answer. Two of vLLM's are 500 and 501 over what a client sent, and so are ours."""
    message = body.get("error", {}).get("message") if isinstance(body, dict) else None
    known = {500: "Cannot load local files without `--allowed-local-media-path`.", 501: "Only base64 data URLs are"}
    if status in known and isinstance(message, str) and message.startswith(known[status]):
        return ""
    return wrong_with_any(status, body)


def server_for(model: str) -> dict[str, Any]:
    """A deployment with low bounds that may fetch from every host there is a private address of."""
    hosts = [host.strip("[]") for host in PRIVATE]
    bounds = {"VLLM_MAX_IMAGE_PIXELS": str(MAX_PIXELS), "VLLM_MAX_MEDIA_REQUEST_DECODE_BYTES": str(4 * MAX_PIXELS)}
    return {"model": model, "allowed_media_domains": (HOST, *hosts), "env": bounds}


def attack(models_dir: Path, model: str, tally: Tally, count: int, seed: int, until: float | None = None) -> int:
    """``count`` hostile files, then every URL, to one model's deployment; the most bytes that the files took above idle.

    Raises:
        AssertionError: somebody connected to an address that is not public.
    """
    generator = Generator(model, seed)
    with origin() as (_, trap):
        deployment = Deployment(server_for(model), models_dir, tally, wrong)
        try:
            for url in urls(trap):
                deployment.send(generator.request("image url", generator.body([url])))
            for request in islice(generator, 20):  # what is loaded for the first picture is no picture's memory
                deployment.send(request)
            idle = _reset_peak()
            for request in islice(generator, count):
                deployment.send(request)
                if until is not None and time.monotonic() > until:
                    break
            assert trap.caught == 0, f"{trap.caught} connections to an address that is not public"
            return max(0, _memory("VmHWM") - idle)
        finally:
            deployment.close()


def _reset_peak() -> int:
    """Forget the highest memory so far; what this process has now, in bytes."""
    Path("/proc/self/clear_refs").write_text("5")
    return _memory("VmRSS")


def _memory(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {name}")
