"""The types of the bodies that are vLLM's own requests. Only the OpenAPI document asks, and it alone pays for them."""

from __future__ import annotations

from pydantic import BaseModel

from core.upstream.requests import chat_type, completion_type, tokenize_types

Forms = tuple[type[BaseModel], ...]


def chat_forms() -> Forms:
    return (chat_type(),)


def completion_forms() -> Forms:
    return (completion_type(),)


def tokenize_forms() -> Forms:
    return tokenize_types()
