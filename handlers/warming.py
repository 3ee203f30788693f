"""Requests that a function answers to itself before Lambda takes its snapshot.

They load what the first real request would load: parsers, templates, the
encoder. Their answers are thrown away, and they draw nothing that is kept:
ids come from the operating system's random source, one by one, when a request
asks for them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Any

CHAT = {"messages": [{"role": "user", "content": "Hello"}]}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
_IDS = [0, 1]
_WHOLE = {"request_id": "w", "choices": [{"index": 0, "token_ids": _IDS, "finish_reason": "stop"}]}
_CHUNK = {"request_id": "w", "choices": [{"index": 0, "token_ids": _IDS}]}
# A body that this deployment refuses is not a fault: it has loaded what it could.
_REQUESTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("/v1/chat/completions/render", CHAT),
    ("/v1/chat/completions/render", {**CHAT, "tools": [TOOL]}),
    ("/v1/completions/render", {"prompt": "Hello"}),
    ("/v1/chat/completions/derender", {"generate_response": _WHOLE, "chat_request": CHAT}),
    (
        "/v1/chat/completions/derender",
        {
            "stream": True,
            "generate_chunk": _CHUNK,
            "prompt_token_ids": _IDS,
            "chat_request": {**CHAT, "stream": True},
        },
    ),
    ("/v1/completions/derender", {"generate_responses": [_WHOLE]}),
)


def warm_up(handler: Callable[[dict[str, Any], Any], dict[str, Any]], paths: Collection[str]) -> bool:
    """Send a function the requests that its ``paths`` answer. False when it has no model."""
    for path, body in _REQUESTS:
        if path in paths:
            handler(_event("POST", path, json.dumps(body)), None)
    handler(_event("GET", "/v1/models", None), None)
    health: int = handler(_event("GET", "/health", None), None)["statusCode"]
    return health == 200


def _event(method: str, path: str, body: str | None) -> dict[str, Any]:
    return {
        "version": "2.0",
        "rawPath": path,
        "rawQueryString": "",
        "headers": {"content-type": "application/json"},
        "requestContext": {"http": {"method": method, "path": path, "sourceIp": "127.0.0.1", "protocol": "HTTP/1.1"}},
        "body": body,
        "isBase64Encoded": False,
    }
