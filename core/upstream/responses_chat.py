"""A request of Responses as the chat that it stands for, to those who read its answer: parsers, and what mends them."""

from __future__ import annotations

from typing import Any

from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.responses.utils import should_continue_final_message

from core.json import Json
from core.upstream.conversations import count_history_tool_calls
from core.upstream.responses import tool_dicts

# Some parsers count the calls before, to name the next one.
_CALL: Json = {
    "role": "assistant",
    "tool_calls": [{"id": "-", "type": "function", "function": {"name": "-", "arguments": "{}"}}],
}
_QUESTION: Json = {"role": "user", "content": "-"}


def chat_choice(choice: Any) -> Any:
    """A tool choice in the form of a chat's, which has no others than these."""
    if isinstance(choice, str):
        return choice
    if choice.type == "allowed_tools":
        return choice.mode
    name = getattr(choice, "name", None)
    return "auto" if name is None else {"type": "function", "function": {"name": name}}


def responses_as_chat(request: Any) -> Any:
    """vLLM's ``ChatCompletionRequest`` for a ``ResponsesRequest``: all that reading an answer asks of one.

    Its conversation is no more than the number of calls. A format of the answer
    is left out: render tells the engine of no end of the reasoning for
    Responses, which then constrains what comes behind it.

    Raises:
        Exception: of any kind, over what the request holds; see ``core.upstream.refusals``.
    """
    continues = should_continue_final_message(request.input)
    chat: Json = {
        "model": request.model,
        "messages": [_CALL] * count_history_tool_calls(request) or [_QUESTION],
        "include_reasoning": request.include_reasoning,
        "parallel_tool_calls": request.parallel_tool_calls,
        "reasoning_effort": None if request.reasoning is None else request.reasoning.effort,
        "chat_template_kwargs": request.chat_template_kwargs,
        "add_generation_prompt": not continues,
        "continue_final_message": continues,
    }
    tools = tool_dicts(request, exclude_unwanted=False)
    if tools:
        chat |= {"tools": tools, "tool_choice": _known_choice(request.tool_choice, tools)}
    return ChatCompletionRequest.model_validate(chat)


def _known_choice(choice: Any, tools: list[Json]) -> Any:
    """A choice that vLLM's chats take: of a function that there is."""
    chosen = chat_choice(choice)
    if isinstance(chosen, dict) and chosen["function"]["name"] not in [tool["function"]["name"] for tool in tools]:
        return "auto"
    return chosen
