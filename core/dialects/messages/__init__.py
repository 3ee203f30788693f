"""Anthropic's Messages: a conversation of content blocks, answered as blocks of thinking, text and tool use."""

from __future__ import annotations

from core.dialects.dialect import Counting, Derendering, Dialect, Relaying, Rendering
from core.dialects.messages.errors import ANTHROPIC_ERRORS

# The doors' imports are late: only a deployment that speaks Messages loads them.


def _rendering() -> Rendering:
    from core.dialects.messages import render  # late: see above

    return render


def _counting() -> Counting:
    from core.dialects.messages import render  # late: see above

    return render


def _derendering() -> Derendering:
    from core.dialects.messages import derender  # late: see above

    return derender


def _relaying() -> Relaying:
    from core.dialects.messages import relay  # late: see above

    return relay


MESSAGES = Dialect(
    name="messages",
    path="/v1/messages",
    usual=False,
    named_events=True,
    errors=ANTHROPIC_ERRORS,
    rendering=_rendering,
    derendering=_derendering,
    relaying=_relaying,
    count_path="/v1/messages/count_tokens",
    counting=_counting,
)
