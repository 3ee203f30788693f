"""Prompts of gpt-oss models: the harmony format, built by the harmony package, never by a chat template."""

from __future__ import annotations

from typing import Any

from vllm.entrypoints.openai.parser.harmony_utils import (
    build_harmony_preamble,
    extract_instructions_from_messages,
    parse_chat_inputs_to_harmony_messages,
    render_for_completion,
)
from vllm.exceptions import VLLMValidationError
from vllm.renderers.chat_utils import has_non_text_content

from core.errors import BadRequest
from core.render.prompt import Prompt, reused_ids
from core.render.renderer import Renderer


def harmony_prompt(renderer: Renderer, request: Any, with_tools: bool) -> Prompt:
    """The prompt of a chat request. The parser may change the request in place first, as in ``conversation_prompt``.

    Nothing is cut and nothing is counted here: vLLM ignores truncation for
    these models, and a prompt that is too long fails when its output is sized.

    Raises:
        Exception: of any kind, over what the request holds; see ``core.render.refusal``.
    """
    if has_non_text_content(request.messages):
        # vLLM would leave such parts out and say nothing.
        raise BadRequest(f"{renderer.view.served_model_name} is not a multimodal model")
    if renderer.parser is not None:
        parser_cls = renderer.parser.parser_cls
        parser = parser_cls(renderer.tokenizer, request.tools, model_config=renderer.parser.model_config)
        parser.adjust_request(request=request)
    token_ids = reused_ids(request, renderer.view, renderer.tokenizer)
    if token_ids is not None:
        return Prompt(token_ids)
    instructions, messages = extract_instructions_from_messages([_with_calls(m) for m in request.messages])
    if request.reasoning_effort == "none":
        raise VLLMValidationError("Harmony does not support reasoning_effort='none'", parameter="reasoning_effort")
    preamble = build_harmony_preamble(
        instructions=instructions,
        tools=request.tools if with_tools else None,
        reasoning_effort=request.reasoning_effort,
        with_custom_tools=with_tools,
    )
    if renderer.options.system_start_date:
        preamble[0].content[0].with_conversation_start_date(renderer.options.system_start_date)
    return Prompt(render_for_completion([*preamble, *parse_chat_inputs_to_harmony_messages(messages)]))


def _with_calls(message: Any) -> Any:
    """An assistant message with its ``tool_calls`` as a list, which harmony's reader takes for granted."""
    if message.get("role") != "assistant":
        return message
    return {**message, "tool_calls": list(message.get("tool_calls") or ())}
