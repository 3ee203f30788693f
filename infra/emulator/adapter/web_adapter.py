"""A stand-in for the Lambda Web Adapter, for functions that are servers of their own.

The adapter itself is a layer of AWS's, in no package registry. This does the
same work as a handler of Lambda's Python runtime: it starts the function's
script, waits until the server takes connections, and turns each event of a Function URL
or an HTTP API into a request to it. Only one thing is different: the answer is
collected and given back whole, which is all that the emulator can show.

It runs in the function's process, so it may import nothing but the standard library.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

_PORT = int(os.environ["AWS_LWA_PORT"])
_POLL_SECONDS = 0.01
# What Lambda gives a function to start; a busy machine may need longer.
_INIT_SECONDS = float(os.environ.get("WEB_ADAPTER_INIT_SECONDS", "10"))
# The adapter says these itself.
_OWN_HEADERS = frozenset({"content-length", "host", "connection", "transfer-encoding"})


class _NotReady(Exception):
    """The server has ended, or is not ready in time."""


def _start() -> subprocess.Popen[bytes]:
    script = Path(os.environ["LAMBDA_TASK_ROOT"]) / os.environ["WEB_ADAPTER_START"]
    process = subprocess.Popen([str(script)])
    deadline = time.monotonic() + _INIT_SECONDS
    while not _is_ready():
        if process.poll() is not None:
            raise _NotReady(f"{script.name} ended with status {process.returncode}")
        if time.monotonic() > deadline:
            process.kill()
            raise _NotReady(f"{script.name} was not ready after {_INIT_SECONDS:g} seconds")
        time.sleep(_POLL_SECONDS)
    return process


def _is_ready() -> bool:
    try:
        socket.create_connection(("127.0.0.1", _PORT), 1).close()
    except OSError:
        return False
    return True


def _ask(method: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", _PORT)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Answer one event (payload format 2.0)."""
    request = event["requestContext"]
    body = event.get("body") or ""
    headers = {name: value for name, value in event.get("headers", {}).items() if name.lower() not in _OWN_HEADERS}
    headers["x-amzn-request-context"] = json.dumps(request)
    headers["x-amzn-lambda-context"] = json.dumps({"request_id": context.aws_request_id})
    query = event.get("rawQueryString")
    status, given, content = _ask(
        request["http"]["method"],
        event["rawPath"] + (f"?{query}" if query else ""),
        base64.b64decode(body) if event.get("isBase64Encoded") else body.encode(),
        headers,
    )
    kept = {name: value for name, value in given.items() if name not in _OWN_HEADERS}
    try:
        text, encoded = content.decode(), False
    except UnicodeDecodeError:
        text, encoded = base64.b64encode(content).decode(), True
    return {"statusCode": status, "headers": kept, "body": text, "isBase64Encoded": encoded}


_process = _start()
