"""The events of a response's items, by vLLM's own state machines, which are brought to where a call before left them.

There are two, as in vLLM: one for what parsers say, and one for the segments
of gpt-oss models. Both keep all text of the item at hand, which its last event
repeats. Here that text is not part of what is carried: whoever keeps it is
asked when the item ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from openai_harmony import TextContent
from vllm.entrypoints.generate.base.protocol import DeltaMessage
from vllm.entrypoints.openai.responses.harmony import harmony_to_response_output
from vllm.entrypoints.openai.responses.streaming_events import (
    SimpleStreamingEventProcessor,
    SimpleStreamingState,
    StreamingState,
    _StateType,
    emit_content_delta_events,
    emit_previous_item_done_events,
    split_delta,
)
from vllm.entrypoints.openai.responses.utils import extract_function_tool_names

from core.choice.output import ChoiceOutput, ToolCall
from core.json import Json
from core.upstream.contract import has
from core.upstream.reading import Segment
from core.upstream.responses import log_probabilities
from core.upstream.version import vllm_version

_ITEM_DONE = "response.output_item.done"


@dataclass
class Piece:
    """What was said of one item in a call: more of its text, with its log probabilities; ``items`` is there at its end.

    ``items`` are those of the answer that the item became: mostly one.
    """

    text: str = ""
    logprobs: list[Json] = field(default_factory=list)
    items: list[Json] | None = None


Earlier = Callable[[], tuple[str, list[Json]]]
"""Gives the text of the open item that calls before said, and its log probabilities."""


class ToolNames(NamedTuple):
    """How the tools of a request are called, as vLLM's state machines look them up."""

    resolved: Any
    custom: frozenset[str]
    functions: frozenset[str]


def tool_names(request: Any) -> ToolNames:
    """The names of a request's tools: the same for all of its chunks."""
    machine = SimpleStreamingEventProcessor(tools=request.tools)
    return ToolNames(machine.tool_call_name_map, machine.custom_tool_names, extract_function_tool_names(request.tools))


class PlainEvents:
    """Events of what a parser says, or of plain text, with tools that are called by ``names``.

    ``saved`` is what :meth:`save` gave in the call before, None in the first one.

    Raises:
        Exception: of any kind, over a ``saved`` that nothing saved.
    """

    # What a new state has is not saved.
    _KEPT: ClassVar[Json] = {
        "output_index": 0,
        "current_item_id": "",
        "tool_call_id": "",
        "tool_call_name": "",
        "tool_call_namespace": None,
        "tool_call_index": None,
        "tool_call_is_custom": False,
        "tool_call_payload": "",
    }

    def __init__(self, names: ToolNames, saved: Json | None, earlier: Earlier) -> None:
        state = SimpleStreamingState()
        if saved is not None:
            for name, value in saved.items():
                if name in self._KEPT:
                    setattr(state, name, value)
            state.current_state = _StateType[saved["state"]]
            # A custom tool's input is read out of all of its arguments.
            state.accumulated_text = saved.get("arguments", "")
        self._processor = SimpleStreamingEventProcessor(state=state)
        self._processor.tool_call_name_map = names.resolved
        self._processor.custom_tool_names = names.custom
        self._state = state
        self._earlier: Earlier | None = earlier if state.current_state is not _StateType.NONE else None
        self.pieces = [Piece()]

    def say(self, output: ChoiceOutput, logprobs: list[Json]) -> Iterator[Json]:
        """The events of one output; ``logprobs`` are those of its tokens, in a chat's form."""
        processor = self._processor
        for delta in _deltas(output):
            target, call = processor.resolve_target_state(delta)
            if target is _StateType.NONE:
                continue
            if processor.needs_transition(target, call):
                yield from self._close("completed")
                yield from map(dumped, processor.open(target, call))
            for event in processor.emit_delta(delta, None, lambda _: log_probabilities(logprobs)):
                yield dumped(event)
            if target is _StateType.CONTENT:
                self.pieces[-1].logprobs += logprobs

    def end(self, finish_reason: str | None) -> Iterator[Json]:
        """The events after the last output."""
        yield from self._close("incomplete" if finish_reason == "length" else "completed")

    def _close(self, status: str) -> Iterator[Json]:
        state, piece = self._state, self.pieces[-1]
        if state.current_state is _StateType.NONE:
            return
        piece.text = state.accumulated_text
        if self._earlier is not None and not state.tool_call_is_custom:
            text, logprobs = self._earlier()
            state.accumulated_text = text + state.accumulated_text
            piece.text, logprobs = piece.text, [*logprobs, *piece.logprobs]
        else:
            logprobs = piece.logprobs
        state.accumulated_logprobs = log_probabilities(logprobs)
        self._earlier = None
        known = has(vllm_version(), "close_current.status")
        told = {"status": status} if known else {}
        yield from map(dumped, self._processor.close_current(**told))
        piece.items = [dumped(item) for item in self._processor.output_items]
        self._processor.output_items.clear()
        state.accumulated_text = ""
        self.pieces.append(Piece())

    def save(self) -> Json:
        """What the next call needs. What was said of the open item is then its last piece's."""
        state = self._state
        saved = {name: value for name, new in self._KEPT.items() if (value := getattr(state, name)) != new}
        saved["state"] = state.current_state.name
        if state.current_state is _StateType.TOOL_CALL and state.tool_call_is_custom:
            saved["arguments"] = state.accumulated_text
        else:
            self.pieces[-1].text = state.accumulated_text
        return saved


class HarmonyEvents:
    """Events of the segments of a gpt-oss model; see :class:`PlainEvents`."""

    _KEPT: ClassVar[tuple[str, ...]] = (
        "current_content_index",
        "current_output_index",
        "current_item_id",
        "current_call_id",
        "sent_output_item_added",
        "is_first_function_call_delta",
    )

    def __init__(self, names: ToolNames, saved: Json | None, earlier: Earlier) -> None:
        self._names = names.functions
        self._state = StreamingState(**{name: saved[name] for name in self._KEPT if name in saved} if saved else {})
        self._earlier: Earlier | None = earlier
        self.pieces = [Piece()]

    def say(self, output: ChoiceOutput, logprobs: list[Json]) -> Iterator[Json]:
        """The events of one output."""
        for segment in output.segments or ():
            if segment.delta:
                self.pieces[-1].text += segment.delta
                yield from map(dumped, emit_content_delta_events(segment, self._state, self._names))
            elif segment.message is not None:
                yield from self._complete(segment)

    def end(self, finish_reason: str | None) -> Iterator[Json]:
        """The events after the last output: none, its last message ended with it."""
        yield from ()

    def _complete(self, segment: Segment) -> Iterator[Json]:
        piece, message = self.pieces[-1], segment.message
        if self._earlier is not None:
            text = self._earlier()[0] + piece.text
            self._earlier = None
            message.content = [TextContent(text=text)]
        done = []
        for event in emit_previous_item_done_events(message, self._state, self._names):
            if event.type == _ITEM_DONE:
                done.append(event.item)
            yield dumped(event)
        self._state.reset_for_new_item()
        items = harmony_to_response_output(message, self._names, incomplete=segment.flushed)
        if has(vllm_version(), "vllm.entrypoints.openai.responses.utils:reuse_streamed_item_ids"):
            from vllm.entrypoints.openai.responses.utils import reuse_streamed_item_ids  # not in every version

            reuse_streamed_item_ids(items, done)
        piece.items = [dumped(item) for item in items]
        self.pieces.append(Piece())

    def save(self) -> Json:
        """What the next call needs."""
        return {name: getattr(self._state, name) for name in self._KEPT}


def harmony_items(segments: Sequence[Segment], request: Any) -> list[Json]:
    """The items of a complete output of a gpt-oss model.

    Raises:
        Exception: of any kind, over what the model wrote.
    """
    names = extract_function_tool_names(request.tools)
    return [
        dumped(item)
        for segment in segments
        if segment.message is not None
        for item in harmony_to_response_output(segment.message, names, incomplete=segment.flushed)
    ]


def dumped(value: Any) -> Json:
    """An event or item as JSON."""
    if isinstance(value, dict):
        return value
    written: Json = value.model_dump(mode="json", by_alias=True)
    return written


@dataclass(slots=True)
class _Function:
    name: str | None
    arguments: str | None


@dataclass(slots=True)
class _Call:
    index: int | None
    id: str | None
    function: _Function | None


@dataclass(slots=True)
class _Delta:
    """What vLLM's state machine reads of a ``DeltaMessage``, which takes longer to make than the events of a chunk."""

    content: str | None = None
    reasoning: str | None = None
    tool_calls: Sequence[_Call] = ()


def _deltas(output: ChoiceOutput) -> Sequence[Any]:
    """What an output says, a thing at a time, as ``split_delta`` splits it where there is more to split."""
    content, reasoning, calls = output.content, output.reasoning, output.tool_calls
    if (content is not None) + (reasoning is not None) + len(calls) <= 1:
        return (_Delta(content, reasoning, [_call(call) for call in calls]),)
    parts: list[Any] = split_delta(DeltaMessage(content=content, reasoning=reasoning, tool_calls=list(calls)))
    return parts


def _call(call: ToolCall) -> _Call:
    function = call["function"]
    called = None if function is None else _Function(function["name"], function["arguments"])
    return _Call(call.get("index"), call["id"], called)
