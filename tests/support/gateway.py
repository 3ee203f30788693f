"""Events as API Gateway and Function URLs send them: the recorded ones of ``events/``, and others made of these."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

Event = dict[str, Any]
EVENTS = Path(__file__).parents[2] / "events"
V1, V2 = "derender-chat-v1", "derender-chat"


def recorded_event(name: str) -> Event:
    """The event of a file in ``events/``, by its name without the suffix."""
    return copy.deepcopy(_read(name))


def event(
    path: str,
    body: Any = None,
    *,
    method: str = "POST",
    headers: Mapping[str, str] | None = None,
    version: str = V2,
) -> Event:
    """A recorded event with another request in it.

    Parameters
    ----------
    body:
        JSON text; bytes, which travel as base64; None for no body; anything
        else is written as JSON.
    headers:
        Besides ``content-type``, in place of the recorded ones.
    version:
        :data:`V2` (HTTP API, Function URL) or :data:`V1` (REST API).
    """
    found = recorded_event(version)
    headers = {"content-type": "application/json", **(headers or {})}
    found |= {"headers": headers, "isBase64Encoded": isinstance(body, bytes), "body": _text(body)}
    context = found["requestContext"]
    if version == V1:
        found |= {"path": path, "httpMethod": method, "pathParameters": {"proxy": path.removeprefix("/")}}
        found["multiValueHeaders"] = {name: [value] for name, value in headers.items()}
        context |= {"path": path, "httpMethod": method}
        return found
    route = f"{method} {path}"
    found |= {"rawPath": path, "routeKey": route}
    context["http"] |= {"method": method, "path": path}
    context["routeKey"] = route
    return found


def _text(body: Any) -> str | None:
    if isinstance(body, bytes):
        return base64.b64encode(body).decode()
    return body if isinstance(body, str | None) else json.dumps(body)


@cache
def _read(name: str) -> Event:
    event: Event = json.loads((EVENTS / f"{name}.json").read_text(encoding="utf-8"))
    return event
