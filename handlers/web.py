"""FastAPI, imported without building the types of its OpenAPI document.

They are some thirty pydantic models, a sixth of a cold start, and only a
reader of the document uses them. Pydantic builds a type of a class with
``defer_build`` when it is first used; a class inherits that from its base, so
the base says it while FastAPI is imported. Where FastAPI was imported before,
nothing is saved and nothing changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import BaseModel, ConfigDict


@contextmanager
def _types_built_when_used() -> Iterator[None]:
    before = BaseModel.model_config
    BaseModel.model_config = ConfigDict(**{**before, "defer_build": True})
    try:
        yield
    finally:
        BaseModel.model_config = before


with _types_built_when_used():
    from fastapi import FastAPI, Request

__all__ = ["FastAPI", "Request"]
