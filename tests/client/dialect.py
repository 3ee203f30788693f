"""A server of ours in replay mode made to speak as vLLM 0.33.0's own: it knows none of our fields.

Unknown fields are ignored, ``generate_chunk`` is required, compressed bodies
are not read, and states hold vLLM's fields only.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from core.protocol.derender import VLLM_FIELDS
from tests.client.proxy import Answer, Call, Proxy, proxy

MISSING = b"""{"error": {"message": "1 validation error:\\n  {'type': 'missing', 'loc': 'body.generate_chunk', \
'msg': 'Field required'}", "type": "Bad Request", "param": "body.generate_chunk", "code": 400}}"""
UNPARSED = b"""{"error": {"message": "There was an error parsing the body", "type": "Bad Request", "param": null, \
"code": 400}}"""
FORBIDDEN = b"""{"error": {"message": "Extra inputs are not permitted", "type": "Bad Request", "param": null, \
"code": 400}}"""


@contextmanager
def vllm_like(replaying: str, strict: bool = False) -> Iterator[Proxy]:
    """A proxy before a service with ``--stream-state replay``; ``strict``: unknown fields are refused."""

    def request(path: str, call: Call) -> Any:
        if call.headers.get("content-encoding") == "gzip":
            return Answer(400, UNPARSED)
        body = call.body
        if path.endswith("/derender") and body.get("stream"):
            ours = {"generate_chunks", "carry_context"} & set(body)
            if "generate_chunk" not in body:
                return Answer(400, MISSING)
            if strict and ours:
                return Answer(400, FORBIDDEN)
            body = {name: value for name, value in body.items() if name not in ours}
        return body

    def answer(path: str, body: Any) -> Any:
        if "stream_state" in body:
            state = body["stream_state"]
            return {**body, "stream_state": {name: state[name] for name in state if name in VLLM_FIELDS}}
        return body

    with proxy(replaying, rewrite_request=request, rewrite_answer=answer) as running:
        yield running
