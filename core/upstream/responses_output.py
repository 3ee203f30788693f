"""Reading an output for Responses: by vLLM's parser, as its server for Responses does, which is not as for a chat.

Nothing is taken away from what the parser says. For gpt-oss models what was
said to whom is kept apart as well (:class:`~core.upstream.reading.Segment`): calls of a model's
built-in tools are items of their own in Responses, and nothing in a chat.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from vllm.entrypoints.generate.base.protocol import DeltaFunctionCall, DeltaMessage, DeltaToolCall
from vllm.entrypoints.openai.parser.harmony_utils import extract_function_from_recipient, is_function_recipient
from vllm.entrypoints.serve.utils.tool_calls_utils import maybe_filter_parallel_tool_calls
from vllm.renderers.chat_utils import make_tool_call_id

from core.upstream.reading import Segment, Whole


class Step(NamedTuple):
    """What one chunk says; see vLLM's ``ChatStreamStep``."""

    delta: Any
    finish_reason: str | None


class ResponsesProcessor:
    """Reads the chunks of one output, in the place of vLLM's ``ChatStreamProcessor`` and with its surface."""

    def __init__(self, request: Any, parser: Any) -> None:
        self.request = request
        self.parser = parser
        self.num_output_tokens = 0
        self.tools_streamed = False
        self._segments: list[Segment] | None = [] if _is_harmony(parser) else None

    def take_segments(self) -> list[Segment] | None:
        """The segments of the steps since this was last asked; None where the model has none."""
        taken = self._segments
        if taken:
            self._segments = []
        return taken

    def step(
        self, delta_text: str, delta_token_ids: list[int], finish_reason: str | None, prompt_token_ids: list[int] | None
    ) -> Step:
        """Read one chunk.

        Raises:
            Exception: of any kind, from the parser.
        """
        if self._segments is not None:
            found = _read_segments(self.parser, delta_token_ids, ends=finish_reason is not None)
            self._segments += found
            delta = _delta(self.parser, found)
        else:
            delta = self.parser.parse_delta(
                delta_text=delta_text,
                delta_token_ids=delta_token_ids,
                request=self.request,
                prompt_token_ids=prompt_token_ids,
                finished=finish_reason is not None,
            )
        self.num_output_tokens += len(delta_token_ids)
        if delta is not None:
            delta = maybe_filter_parallel_tool_calls(delta, self.request)
            self.tools_streamed = self.tools_streamed or bool(delta.tool_calls)
        return Step(delta, finish_reason)


def read_whole(parser: Any, request: Any, text: str, token_ids: Sequence[int], *, enable_auto_tools: bool) -> Whole:
    """Read a complete output with a fresh parser.

    Raises:
        Exception: of any kind, from the parser.
    """
    if _is_harmony(parser):
        segments = _read_segments(parser, token_ids, ends=True)
        delta = _delta(parser, segments) or DeltaMessage()
        called = [segment for segment in segments if segment.message is not None and _is_call(segment)]
        calls = [_call(_name(segment), _text(segment)) for segment in called]
        return Whole(delta.reasoning, delta.content, calls, segments)
    reasoning, content, calls = parser.parse(
        text, request, enable_auto_tools=enable_auto_tools, model_output_token_ids=token_ids
    )
    kept = maybe_filter_parallel_tool_calls(calls or [], request)
    shown = reasoning if request.include_reasoning else None
    return Whole(shown, content, [_call(call.name, call.arguments, call.id) for call in kept])


def _is_harmony(parser: Any) -> bool:
    return hasattr(parser, "process_chunk")


def _read_segments(parser: Any, token_ids: Sequence[int], *, ends: bool) -> list[Segment]:
    found = [Segment(*segment) for segment in parser.process_chunk(token_ids).segments]
    if ends:
        found += [Segment(*segment)._replace(flushed=True) for segment in parser.flush()]
    return found


def _delta(parser: Any, segments: Sequence[Segment]) -> Any:
    """What segments say in a chat's form, for those who look at it: a call's name comes with its end.

    What goes to a built-in tool is no call of a client's, and counts as reasoning.
    """
    content, reasoning, calls = "", "", []
    for segment in segments:
        if _is_call(segment):
            name = None if segment.message is None else _name(segment)
            part = DeltaFunctionCall(name=name, arguments=segment.delta or None)
            calls.append(DeltaToolCall(index=parser._next_tool_call_index, function=part))
            parser._next_tool_call_index += segment.message is not None
        elif segment.message is not None:
            continue
        elif segment.channel == "analysis" or segment.recipient is not None:
            reasoning += segment.delta
        elif segment.channel is not None:
            content += segment.delta
    if not content and not reasoning and not calls:
        return None
    return DeltaMessage(content=content or None, reasoning=reasoning or None, tool_calls=calls)


def _is_call(segment: Segment) -> bool:
    return segment.recipient is not None and bool(is_function_recipient(segment.recipient))


def _name(segment: Segment) -> str:
    return str(extract_function_from_recipient(segment.recipient))


def _text(segment: Segment) -> str:
    return segment.message.content[0].text if segment.message.content else ""


def _call(name: str, arguments: str, call_id: str | None = None) -> dict[str, Any]:
    return {
        "id": call_id or make_tool_call_id(),
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }
