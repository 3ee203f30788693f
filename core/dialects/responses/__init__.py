"""OpenAI's Responses: items of input, answered as items of reasoning, messages and calls. Nothing is stored."""

from __future__ import annotations

from core.dialects.dialect import Derendering, Dialect, Relaying, Rendering
from core.dialects.error_shape import VLLM_ERRORS
from core.errors import RequestError

# The doors' imports are late: only a deployment that speaks Responses loads them.


def _rendering() -> Rendering:
    from core.dialects.responses import render  # late: see above

    return render


def _derendering() -> Derendering:
    from core.dialects.responses import derender  # late: see above

    return derender


def _relaying() -> Relaying:
    from core.dialects.responses import relay  # late: see above

    return relay


def _missing(response_id: str) -> RequestError:
    from core.dialects.responses.errors import ResponseNotFound  # late: see above

    return ResponseNotFound(response_id)


RESPONSES = Dialect(
    name="responses",
    path="/v1/responses",
    usual=False,
    named_events=True,
    errors=VLLM_ERRORS,
    rendering=_rendering,
    derendering=_derendering,
    relaying=_relaying,
    missing=_missing,
)
