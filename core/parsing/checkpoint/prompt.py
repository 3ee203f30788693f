"""Letting a parser see the prompt before the first tokens arrive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def read_prompt(processor: Any, prompt_token_ids: Sequence[int]) -> None:
    """Do what a parser's first step does about the prompt, without any output.

    For a first chunk that has no tokens: what the prompt decides is then in the
    snapshot, and the caller need not keep it. Parsers that never look at the
    prompt (harmony) are left as they are.
    """
    from vllm.parser.abstract_parser import DelegatingParser
    from vllm.parser.harmony import HarmonyParser
    from vllm.parser.response_template import ResponseTemplateParser

    parser = processor.parser
    ids = list(prompt_token_ids)
    if isinstance(parser, ResponseTemplateParser):
        parser.set_prompt_token_ids(ids)
        # The stream keeps what it needs of the prompt; without it, the whole prompt would be in the snapshot.
        parser._stream = parser._new_stream(
            processor.request,
            enable_auto_tools=parser._enable_auto_tools,
            include_reasoning=processor.request.include_reasoning,
        )
    elif isinstance(parser, DelegatingParser) and not isinstance(parser, HarmonyParser):
        state = parser._stream_state
        if state.prompt_reasoning_checked:
            return
        state.prompt_reasoning_checked = True
        parser.set_prompt_token_ids(ids)
        reasoning = parser._reasoning_parser
        if reasoning is None or parser.is_reasoning_end(ids):
            state.reasoning_ended = True
        else:
            reasoning.adjust_initial_state_from_prompt(ids)
