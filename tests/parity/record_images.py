"""Answers of full vLLM's server to chats with pictures, kept as cases of ``tests/images``: ``make parity ARGS="--only images --record"``.

The given cases (``GIVEN``) are never written. Pictures come one by one first:
vLLM then takes those of a later chat from its cache, and describes each by itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from tests.images.recorded import DATA, decoded, with_files

GIVEN = frozenset(("gemma3", "qwen2.5-vl", "qwen3-vl"))
FILES = (
    "png_5x7", "png_28x28", "jpg_exif3", "png_palette", "png_rgba", "jpg_cmyk", "webp_lossy", "jpg_640x480",
    "png_noise_700x500",
)  # fmt: skip


def write_cases(name: str, model_id: str, ask: Callable[[bytes], tuple[int, Any]]) -> None:
    """Write the cases of one model; ``model_id`` is the server's model argument."""
    lines = []
    for kind, request in requests(name):
        status, response = ask(json.dumps(with_files(request)).encode())
        case = {"id": f"{name}.{kind}", "model": name, "model_id": model_id, "request": request}
        lines.append(json.dumps({**case, "status": status, "response": decoded(response)}) + "\n")
    (DATA / "cases" / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")


def requests(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """What is asked: each file alone, two in one chat, pictures in the history, a uuid, and no tensors."""

    def chat(*messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
        return {"model": name, "messages": list(messages), "max_tokens": 16, **fields}

    def user(*files: str, **fields: Any) -> dict[str, Any]:
        parts: list[Any] = [{"type": "text", "text": "Look at this:"}]
        for file in files:
            parts += [{"type": "image_url", "image_url": {"url": {"$file": file}}, **fields}]
            parts += [{"type": "text", "text": "What is it?"}]
        return {"role": "user", "content": parts}

    for file in FILES:
        yield f"img_{file}", chat(user(file))
    yield "two", chat(user("png_28x28", "jpg_exif3"))
    yield "history", chat(user("png_28x28"), {"role": "assistant", "content": "A square."}, user("png_rgba"))
    yield "uuid", chat(user("png_28x28", uuid="mine"))
    yield "none", chat(user("jpg_640x480"), mm_payload="none")
