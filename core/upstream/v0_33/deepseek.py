"""The parsers of DeepSeek, by version of the model."""

from __future__ import annotations

from typing import Any

from core.parsing.checkpoint.open_string import middle_of_open_string
from core.parsing.checkpoint.part import Changes, Part, Parts, Reads, TextRule
from core.upstream.v0_33.engine import adapters
from core.upstream.v0_33.engine_slots import slots
from core.upstream.v0_33.phase_text import save_text

_MARKERS = ("tool_calls_start_token_id", "tool_call_start_token_id", "tool_call_end_token_id")


def _last_call(separator: str, first_line: bool) -> TextRule:
    """Reads the last call of the text, and compares its arguments with those before."""

    def rule(changes: Changes, state: Any, tool: Any, _request: Any) -> None:
        text: str = state.previous_text
        opening = tool.tool_call_start_token
        start = text.rfind(opening)
        if start == -1:
            return
        text = text[start:]
        calls, streamed = list(tool.prev_tool_call_arr), list(tool.streamed_args_for_tool)
        current = tool.current_tool_id
        for index in range(min(current, len(calls) - 1)):
            calls[index] = {}
        for index in range(min(current, len(streamed))):
            streamed[index] = ""
        if 0 <= current < len(calls) and current < len(streamed) and current == len(calls) - 1:
            text = _cut_arguments(text, separator, first_line, calls, streamed, current)
        save_text(changes, state, text)
        changes[id(tool)] = {"prev_tool_call_arr": calls, "streamed_args_for_tool": streamed}

    return rule


def _cut_arguments(
    text: str, separator: str, first_line: bool, calls: list[Any], streamed: list[str], index: int
) -> str:
    known = calls[index].get("arguments")
    if not isinstance(known, str) or not known or "<｜" in known:
        return text
    line_end = text.find("\n")
    # The name ends at the last separator of the first line; a separator that begins with a line break ends that line.
    start = (
        text.find(separator) if separator[0] == "\n" else text.rfind(separator, 0, line_end if line_end != -1 else None)
    )
    middle = middle_of_open_string(known)
    if start == -1 or middle is None or not text.startswith(known, start := start + len(separator)):
        return text
    low, high = middle
    if streamed[index][:high] != known[:high]:
        return text
    if first_line and (newline := known.find("\n")) >= low and newline < high:
        # The name before the arguments is looked for up to the end of the line.
        return text
    calls[index] = {**calls[index], "arguments": known[:low] + known[high:]}
    streamed[index] = streamed[index][:low] + streamed[index][high:]
    return text[: start + low] + text[start + high :]


PARTS: Parts = {
    **adapters("DeepSeekV32Parser"),
    **adapters("DeepSeekV4Parser"),
    **adapters("DeepSeekV41Parser"),
    # These look through the arguments of all calls (``_convert_args``).
    "vllm.parser.deepseek_v32.DeepSeekV32Parser": Part(specials={"slots": slots(every_call=True)}),
    "vllm.parser.deepseek_v4.DeepSeekV4Parser": Part(specials={"slots": slots(every_call=True)}),
    "vllm.parser.deepseek_v41.DeepSeekV41Parser": Part(),
    "vllm.reasoning.deepseek_r1_reasoning_parser.DeepSeekR1ReasoningParser": Part(),
    "vllm.reasoning.deepseek_v3_reasoning_parser.DeepSeekV3ReasoningParser": Part(
        children=("_parser",), reads=Reads(through="_parser")
    ),
    "vllm.reasoning.deepseek_v3_reasoning_parser.DeepSeekV3ReasoningWithThinkingParser": Part(),
    "vllm.tool_parsers.deepseekv3_tool_parser.DeepSeekV3ToolParser": Part(
        reads=Reads(_MARKERS, _last_call("\n```json\n", first_line=False))
    ),
    "vllm.tool_parsers.deepseekv31_tool_parser.DeepSeekV31ToolParser": Part(
        reads=Reads(_MARKERS, _last_call("<｜tool▁sep｜>", first_line=True))
    ),
    "vllm.tool_parsers.deepseekv32_engine_tool_parser.DeepSeekV32EngineToolParser": Part(),
    "vllm.tool_parsers.deepseekv4_engine_tool_parser.DeepSeekV4EngineToolParser": Part(),
    "vllm.tool_parsers.deepseekv41_engine_tool_parser.DeepSeekV41EngineToolParser": Part(),
}
