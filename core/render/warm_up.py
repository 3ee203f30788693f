"""Building ahead of time what the first request to a render function would wait for."""

from __future__ import annotations

from contextlib import suppress

from core.errors import BadRequest
from core.model import Model
from core.render.chat import render_chat
from core.render.completions import render_completion


def warm_up(model: Model) -> None:
    """Read the tokenizer's merges, compile the chat template and detect its format, load harmony's encoding.

    For a function's init phase, which costs its callers nothing. It answers
    nothing and may be left out.

    Raises:
        ConfigurationError: the tokenizer's file is damaged.
    """
    render_completion(model, {"prompt": "warm up"})
    with suppress(BadRequest):  # a model without a chat template, or one that wants other messages
        render_chat(model, {"messages": [{"role": "user", "content": "warm up"}]})
