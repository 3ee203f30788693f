"""What do a picture's features cost, as a multiple of Pillow's own decode of the file, and of vLLM's server?

Pictures of 1 and 12 megapixels, as JPEG and as PNG, in a chat for a Qwen2.5-VL
folder. Pillow's decode, the whole render of a request in the application (base64, hash,
decode, resize, patches, base64 again), and the ways without tensors are measured
in turns in one process, in processor time, which other work on the machine
changes little. Then both servers get the same requests over HTTP, by processor
time and by the clock; vLLM's is left out where it, or torchvision, is not
installed. Memory is a server's high-water mark during one request above what it
had before, which was a first small picture; the request's body and the answer are in it.
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from PIL import Image

from benchmarks.harness import peers
from benchmarks.harness.setups import PATH_RENDER, ROOT, model_folder
from benchmarks.harness.timing import best_of
from tests.images.recorded import build_models, file

MODEL = "qwen2.5-vl"
# Rounds of the timings in process, and requests to a server; the best counts.
ROUNDS, REQUESTS = 7, 5


def run() -> list[dict[str, Any]]:
    """One row for each file."""
    folders = ROOT / "build" / "image-models"
    build_models(model_folder("qwen3"), folders)
    files = _files()
    rows = [{"file": name, **_in_process(folders / MODEL, data)} for name, data in files.items()]
    for server in (peers.ours(folders / MODEL), _vllm(folders / MODEL)):
        with server as peer:
            if peer is not None:
                for row, data in zip(rows, files.values(), strict=True):
                    row |= {f"{peer.name}_{key}": value for key, value in _over_http(peer, data).items()}
    for row in rows:
        row["ratio"] = row["render_ms"] / row["decode_ms"]
        if "vLLM_cpu_ms" in row:
            row["vllm_ratio"] = row["vLLM_cpu_ms"] / row["ours_cpu_ms"]
    return rows


def _files() -> dict[str, bytes]:
    large = file("jpg_4000x3000")
    out = io.BytesIO()
    with Image.open(io.BytesIO(large)) as image:
        image.save(out, "PNG")
    return {
        "JPEG, 1 MP": file("jpg_1024x1024"),
        "PNG, 1 MP": file("png_1024x1024"),
        "JPEG, 12 MP": large,
        "PNG, 12 MP": out.getvalue(),
    }


def chat(data: bytes, **fields: Any) -> dict[str, Any]:
    """A chat with one picture."""
    url = f"data:image/png;base64,{base64.b64encode(data).decode()}"
    parts = [{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": url}}]
    return {"messages": [{"role": "user", "content": parts}], "max_tokens": 16, **fields}


def _in_process(folder: Path, data: bytes) -> dict[str, Any]:
    """Milliseconds of the decode and of the ways to render, measured by a process of its own."""
    path = ROOT / "build" / "benchmark-picture"
    path.write_bytes(data)
    command = [sys.executable, "-m", "benchmarks.picture_time", str(folder), str(path)]
    answer = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    found: dict[str, Any] = json.loads(answer)
    return found


def measure(folder: Path, data: bytes) -> dict[str, Any]:
    """The same, in this process."""
    from handlers.server import server_app
    from handlers.settings import Settings

    app = server_app(Settings(model=str(folder), served_model_name=("m",)))
    bodies = {
        name: json.dumps(chat(data, mm_payload=payload)).encode()
        for name, payload in (("render", "tensors"), ("layout", "none"), ("parts", "content_parts"))
    }
    with asyncio.Runner() as runner:

        def call(body: bytes) -> None:
            runner.run(_call(app, body))

        def decode() -> None:
            with Image.open(io.BytesIO(data)) as image:
                image.load()

        calls: Mapping[str, Any] = {
            "decode": decode,
            **{name: lambda body=body: call(body) for name, body in bodies.items()},
        }
        best = best_of(calls, rounds=ROUNDS, seconds=0.1, clock=time.process_time)
    with Image.open(io.BytesIO(data)) as image:
        pixels = image.width * image.height
    return {"pixels": pixels, **{f"{name}_ms": seconds * 1e3 for name, seconds in best.items()}}


async def _call(app: Any, body: bytes) -> None:
    """One request to the application, whose answer is received and let go.

    Raises:
        RuntimeError: it is an error.
    """
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "path": PATH_RENDER,
        "raw_path": PATH_RENDER.encode(), "query_string": b"", "scheme": "http", "root_path": "",
        "headers": [(b"content-type", b"application/json"), (b"host", b"localhost")],
        "server": ("localhost", 80), "client": ("127.0.0.1", 1),
    }  # fmt: skip
    given = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> Any:
        return next(given, None) or await asyncio.Event().wait()

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start" and message["status"] != 200:
            raise RuntimeError(f"status {message['status']}")

    await app(scope, receive, send)


def _over_http(peer: peers.Peer, data: bytes) -> dict[str, Any]:
    connection = peers.Connection(peer, PATH_RENDER)
    small, body = (json.dumps({"model": "m", **chat(one)}).encode() for one in (file("png_28x28"), data))
    connection.post_raw(small)
    idle, _ = peers.memory_mb(peer.pid)
    peers.forget_peak(peer.pid)
    best, _ = connection.post_raw(body)
    _, peak = peers.memory_mb(peer.pid)
    used = peers.cpu_seconds(peer.pid)
    for _ in range(REQUESTS):
        best = min(best, connection.post_raw(body)[0])
    used = (peers.cpu_seconds(peer.pid) - used) / REQUESTS
    with Image.open(io.BytesIO(data)) as image:
        pixels = image.width * image.height
    return {
        "ms": best * 1e3,
        "cpu_ms": used * 1e3,
        "peak_mb": peak - idle,
        "bytes_a_pixel": (peak - idle) * 1e6 / pixels,
    }


def _vllm(folder: Path) -> AbstractContextManager[peers.Peer | None]:
    """vLLM's server, where its Python has what reads images."""
    return peers.vllm(folder) if peers.reads_images() else peers.nobody()


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]), Path(sys.argv[2]).read_bytes())))
