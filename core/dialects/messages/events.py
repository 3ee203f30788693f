"""A message's stream of events: blocks that start, grow and stop, one after the other.

The rules are those of vLLM's ``message_stream_converter``. Text that comes while
a tool is being called waits until the call is over, since more of its arguments
may follow; what waits is bounded, so that a stream's state stays small.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from core.bounds import MAX_COUNT
from core.choice.output import ChoiceOutput, ToolCall
from core.dialects.messages.arguments import ArgumentsEnd
from core.json import Json
from core.protocol.openai import random_id
from core.upstream.messages import stop_reasons

BlockType = Literal["text", "thinking", "tool_use"]
# Between two calls stand a few characters. Beyond so many the call is taken to be over.
MAX_WAITING = 1024
MAX_PLACE = 2**31
_DELTAS = {"text": ("text_delta", "text"), "thinking": ("thinking_delta", "thinking")}


class Written(BaseModel):
    """What has been written of a message's stream.

    ``place`` is the place of the block that is open, or of the next one;
    ``call`` the number of the tool call in an open block, ``waiting`` the text
    that comes after it, ``end`` how far its arguments have come. The counts are
    of the prompt's and of the output's tokens so far.
    """

    model_config = ConfigDict(extra="forbid")

    started: bool = False
    ended: bool = False
    place: int = Field(default=0, ge=0, le=MAX_PLACE)
    block: BlockType | None = None
    signature: str | None = Field(default=None, max_length=64)
    call: int | None = Field(default=None, ge=0, le=MAX_PLACE)
    waiting: str = Field(default="", max_length=2 * MAX_WAITING)
    calls: bool = False
    end: ArgumentsEnd = Field(default_factory=ArgumentsEnd)
    input_tokens: int = Field(default=0, ge=0, le=MAX_COUNT)
    output_tokens: int = Field(default=0, ge=0, le=MAX_COUNT)


class MessageEvents:
    """Writes the events of one message; ``written`` is where it stands, and is changed."""

    def __init__(self, message_id: str, model_name: str, written: Written) -> None:
        self._id = message_id
        self._model_name = model_name
        self.written = written

    def start(self, usage: Json) -> Json:
        """The first event."""
        self.written.started = True
        return {
            "type": "message_start",
            "message": {
                "id": self._id,
                "type": "message",
                "role": "assistant",
                "content": [],
                "model": self._model_name,
                "stop_reason": None,
                "stop_sequence": None,
                "usage": usage,
            },
        }

    def say(self, output: ChoiceOutput) -> Iterator[Json]:
        """The events of one output."""
        if output.reasoning:
            yield from self._grow("thinking", output.reasoning)
        if output.content:
            if self.written.block == "tool_use":
                yield from self._wait(output.content)
            else:
                yield from self._grow("text", output.content)
        for call in output.tool_calls:
            yield from self._call(call)

    def finish(self, output: ChoiceOutput, usage: Json) -> Iterator[Json]:
        """The events after the last output."""
        yield from self._stop()
        written = self.written
        reason, sequence = stop_reasons(
            output.finish_reason or "stop",
            output.stop_reason,
            calls=written.calls,
            complete=written.calls and written.end.complete,
        )
        yield {
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": sequence},
            "usage": usage,
        }
        written.ended = True
        yield {"type": "message_stop"}

    def fail(self, error: Json) -> Iterator[Json]:
        """The events of a message that cannot go on; ``error`` is the last."""
        yield from self._stop()
        self.written.ended = True
        yield error

    def _grow(self, block: Literal["text", "thinking"], text: str) -> Iterator[Json]:
        if self.written.block != block:
            yield from self._stop()
            yield self._begin(block, {"type": block, block: ""})
        kind, field = _DELTAS[block]
        yield self._delta({"type": kind, field: text})

    def _wait(self, text: str) -> Iterator[Json]:
        self.written.waiting += text
        if len(self.written.waiting) > MAX_WAITING:
            waiting, self.written.waiting = self.written.waiting, ""
            yield from self._grow("text", waiting)

    def _call(self, call: ToolCall) -> Iterator[Json]:
        written, function, number = self.written, call["function"], call.get("index", 0)
        name = function["name"] if function is not None else None
        if call["id"] is not None and name is not None and written.call != number:
            yield from self._stop()
            written.calls, written.end = True, ArgumentsEnd()
            yield self._begin("tool_use", {"type": "tool_use", "id": call["id"], "name": name, "input": {}})
            written.call = number
        arguments = function["arguments"] if function is not None else None
        if arguments and written.call == number:
            written.end.read(arguments)
            yield self._delta({"type": "input_json_delta", "partial_json": arguments})

    def _begin(self, block: BlockType, content: Json) -> Json:
        self.written.block = block
        self.written.signature = random_id() if block == "thinking" else None
        return {"type": "content_block_start", "content_block": content, "index": self.written.place}

    def _delta(self, delta: Json) -> Json:
        return {"type": "content_block_delta", "delta": delta, "index": self.written.place}

    def _stop(self) -> Iterator[Json]:
        """The end of the open block, and of the text that waits for it."""
        written = self.written
        if written.block is None:
            return
        if written.signature is not None:
            yield self._delta({"type": "signature_delta", "signature": written.signature})
        yield {"type": "content_block_stop", "index": written.place}
        waiting, written.waiting = written.waiting, ""
        written.place, written.block, written.signature, written.call = written.place + 1, None, None, None
        if waiting:
            yield from self._grow("text", waiting)
            yield from self._stop()
