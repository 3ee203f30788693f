"""Rendering completion requests; the steps are in ``core.render.completions``."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

from core.render.completions import render_completion as render
from core.upstream.requests import completion_type

__all__ = ["forms", "render"]


def forms() -> Sequence[type[BaseModel]]:
    return (completion_type(),)
