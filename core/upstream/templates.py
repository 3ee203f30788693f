"""Chat templates, compiled and rendered in jinja2's sandbox by the rules that published templates rely on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import Template
from vllm._slice.chat_template import _cut_at_mark, _with_mark, compile_chat_template, render_chat_template

__all__ = ["compile_chat_template", "render_chat_template", "render_compiled"]


def render_compiled(
    template: Template,
    source: str,
    messages: Sequence[Mapping[str, Any]],
    continued: bool | str,
    variables: Mapping[str, Any],
) -> str:
    """As ``render_chat_template``, with a template that was compiled from ``source`` elsewhere."""
    if not continued:
        return template.render(messages=messages, **variables)
    marked, text = _with_mark(messages, continued if isinstance(continued, str) else "content", source)
    return str(_cut_at_mark(template.render(messages=marked, **variables), text))
