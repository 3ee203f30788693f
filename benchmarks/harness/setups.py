"""What the benchmarks have in common: model folders, outputs in a family's format, API Gateway events."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PATH_CHAT = "/v1/chat/completions/derender"
PATH_RENDER = "/v1/chat/completions/render"
QWEN_TOOL_CHAT: dict[str, Any] = {
    "tool_call_parser": "hermes",
    "reasoning_parser": "qwen3",
    "enable_auto_tool_choice": True,
}


def model_folder(name: str) -> Path:
    """A model folder built from registry packages, cached under ``build/models``."""
    from infra.models import build

    folder = ROOT / "build" / "models" / name
    if not (folder / "tokenizer.json").is_file():
        build(name, folder.parent)
    return folder


def tool_call_output(encoder: Any, tokens: int) -> list[int]:
    """A Qwen3 output of ``tokens`` ids: half reasoning, half one tool call with a long string argument."""
    line = "The quick brown fox jumps over the lazy dog, 42 times; then it rests. "
    thought = "<think>\n" + line * (tokens // 16)
    argument = {"name": "write_file", "arguments": {"text": line * tokens}}
    call = "\n</think>\n\n<tool_call>\n" + json.dumps(argument)
    head = encoder.encode(thought, add_special_tokens=False).ids[: tokens // 2]
    tail = encoder.encode(call, add_special_tokens=False).ids
    end = encoder.encode('"}}\n</tool_call>', add_special_tokens=False).ids
    ids: list[int] = (head + tail)[: tokens - len(end)] + end
    return ids


# Called as Lambda calls it: an API Gateway event in, its answer out; there is no context here.
Handler = Callable[[dict[str, Any], None], dict[str, Any]]


def lambda_handler(app: Any) -> Handler:
    """A Lambda entry for an application, as ``handlers`` makes its own."""
    from mangum import Mangum

    adapter: Any = Mangum(app, lifespan="off")
    handler: Handler = adapter
    return handler


def render_handler(folder: Path) -> Handler:
    """The render function as Lambda calls it."""
    from handlers.app import create_app
    from handlers.render_endpoints import RENDER
    from handlers.settings import Settings

    return lambda_handler(create_app(Settings(model=str(folder), served_model_name=("m",)), RENDER))


def gateway_event(path: str, body: str) -> dict[str, Any]:
    """An API Gateway v2 (HTTP API) event of a POST."""
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": "",
        "headers": {"content-type": "application/json", "host": "localhost"},
        "requestContext": {
            "http": {"method": "POST", "path": path, "sourceIp": "127.0.0.1", "protocol": "HTTP/1.1"},
            "requestId": "r",
            "stage": "$default",
        },
        "body": body,
        "isBase64Encoded": False,
    }
