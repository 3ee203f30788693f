"""The types of the bodies that are vLLM's own requests. Only the OpenAPI document asks, and it alone pays for them."""

from __future__ import annotations

from pydantic import BaseModel

Forms = tuple[type[BaseModel], ...]


def chat_forms() -> Forms:
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest

    return (ChatCompletionRequest,)


def completion_forms() -> Forms:
    from vllm.entrypoints.openai.completion.protocol import CompletionRequest

    return (CompletionRequest,)


def tokenize_forms() -> Forms:
    from vllm.entrypoints.serve.tokenize.protocol import TokenizeChatRequest, TokenizeCompletionRequest

    return TokenizeCompletionRequest, TokenizeChatRequest
