"""Rendering chat requests; the steps are in ``core.render.chat``."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

from core.render.chat import render_chat as render
from core.upstream.requests import chat_type

__all__ = ["forms", "render"]


def forms() -> Sequence[type[BaseModel]]:
    return (chat_type(),)
