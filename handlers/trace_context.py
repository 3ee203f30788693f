"""The trace that a request belongs to, by W3C's Trace Context: taken from the client, passed on to the engine.

Without spans of its own (``handlers.tracing``) this service passes on what came, as the standard wants of who takes no
part.
"""

from __future__ import annotations

import re

from starlette.requests import Request

from handlers.tracing import TRACE

_PARENT = re.compile(r"(?!ff)[\da-f]{2}-(?!0{32})[\da-f]{32}-(?!0{16})[\da-f]{16}-[\da-f]{2}(-[\x21-\x7e]{1,256})?")
# The standard's own least that is to be passed on.
_STATE = re.compile(r"[\x20-\x7e]{1,512}")


def trace_headers(request: Request) -> dict[str, str]:
    """The headers of the trace, for a call that belongs to the request.

    Where spans are made (``handlers.tracing``), the request's own. Else ``traceparent`` as it came, and
    ``tracestate`` where there is one; nothing where there is no trace, or none that can be.
    """
    own: dict[str, str] | None = request.scope.get("state", {}).get(TRACE)
    if own is not None:
        return own
    parent = request.headers.get("traceparent", "")
    if not _PARENT.fullmatch(parent):
        return {}
    state = ",".join(request.headers.getlist("tracestate"))
    return {"traceparent": parent, **({"tracestate": state} if _STATE.fullmatch(state) else {})}
