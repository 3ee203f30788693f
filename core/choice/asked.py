"""What a request says about its answer that a repaired reading needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from core.choice.written_call import Tools
from core.upstream.requests import answer_format, forced_tool


class Asked(NamedTuple):
    """What the request says about its answer that the reading needs.

    ``calls`` says whether there may be any, ``forced`` that there must be: of
    the tool that it names, or of any (""). ``one_call`` says that only the
    first counts, ``answers_at_once`` that the engine was told to constrain the
    output from its first token: then nothing of it is reasoning.
    """

    tools: Tools
    calls: bool
    forced: str | None
    one_call: bool
    hides_reasoning: bool
    answers_at_once: bool


def asked_of(chat_request: Any, *, keeps_calls: bool) -> Asked:
    """Read vLLM's validated chat request; ``keeps_calls`` says whether the deployment makes calls of its outputs."""
    tools: dict[str, Mapping[str, Any]] = {}
    for tool in chat_request.tools or ():
        function = getattr(tool, "function", None)
        if function is not None and function.name:
            tools[function.name] = function.parameters or {}
    hides, forced = not chat_request.include_reasoning, forced_tool(chat_request)
    constrained = chat_request.structured_outputs is not None or answer_format(chat_request) != "text"
    return Asked(tools, keeps_calls, forced, chat_request.parallel_tool_calls is False, hides, hides and constrained)
