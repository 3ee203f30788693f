"""OpenAI's chat completions."""

from __future__ import annotations

from core.dialects.dialect import Derendering, Dialect, Relaying, Rendering
from core.dialects.error_shape import VLLM_ERRORS

# The doors' imports are late: each function loads what it does, and nothing of the others.


def _rendering() -> Rendering:
    from core.dialects.chat import render  # late: see above

    return render


def _derendering() -> Derendering:
    from core.dialects.chat import derender  # late: see above

    return derender


def _relaying() -> Relaying:
    from core.dialects.chat import relay  # late: see above

    return relay


CHAT = Dialect(
    name="chat",
    path="/v1/chat/completions",
    usual=True,
    named_events=False,
    errors=VLLM_ERRORS,
    rendering=_rendering,
    derendering=_derendering,
    relaying=_relaying,
)
