"""A response's stream of events: created, in progress, what its items say, and completed or incomplete.

What the items say is vLLM's to write (``core.upstream.responses_events``); here
are the events around it, their numbers, and what carries both from call to call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from core.bounds import MAX_COUNT
from core.choice.output import ChoiceOutput
from core.dialects.responses.errors import error_event
from core.dialects.responses.said import Reading, Said, without_text
from core.errors import InvalidState, RequestError
from core.json import Json
from core.upstream.responses import wants_logprobs
from core.upstream.responses_events import HarmonyEvents, Piece, PlainEvents, ToolNames, tool_names

Envelope = Callable[[int, str, list[Json], Json | None], Json]
"""``(created_at, status, output, usage)``: the response that the events around the items hold."""

# Fields of the last events of an item that repeat what its deltas said.
_REPEATED = ("text", "arguments", "input", "code")


class Written(BaseModel):
    """What has been written of a response's stream.

    ``items`` is where vLLM's events of items stand, ``said`` what they have
    said (None: it is not carried). The counts are of tokens; ``created`` is in
    seconds since 1970.
    """

    model_config = ConfigDict(extra="forbid")

    started: bool = False
    ended: bool = False
    sequence: int = Field(default=0, ge=0, le=MAX_COUNT)
    created: int = Field(default=0, ge=0, le=MAX_COUNT)
    items: Json | None = None
    said: Said | None = None
    any_item: bool = False
    input_tokens: int = Field(default=0, ge=0, le=MAX_COUNT)
    output_tokens: int = Field(default=0, ge=0, le=MAX_COUNT)
    reasoning_tokens: int = Field(default=0, ge=0, le=MAX_COUNT)


class ResponseEvents:
    """Writes the events of one response; ``written`` is where it stands, and is changed.

    ``names`` are those of the request's tools, where they are known already.

    Raises:
        InvalidState: what was written does not add up.
    """

    def __init__(
        self, request: Any, envelope: Envelope, written: Written, *, is_harmony: bool, names: ToolNames | None = None
    ) -> None:
        self.written = written
        self._envelope = envelope
        self.is_harmony = is_harmony
        self._logprobs = wants_logprobs(request)
        self._reading: Reading | None = None
        kind = HarmonyEvents if is_harmony else PlainEvents
        try:
            self._items = kind(names or tool_names(request), written.items, self._earlier)
        except Exception as exc:
            raise InvalidState("written does not add up", "stream_state.written") from exc

    def start(self) -> Iterator[Json]:
        """The first events."""
        response = self._envelope(self.written.created, "in_progress", [], None)
        self.written.started = True
        yield from self._numbered({"type": f"response.{kind}", "response": response} for kind in _FIRST)

    def say(self, output: ChoiceOutput) -> Iterator[Json]:
        """The events of one output."""
        content = (output.logprobs or {}).get("content") if self._logprobs else None
        yield from self._numbered(self._items.say(output, content or []))

    def finish(self, finish_reason: str | None, usage: Json) -> Iterator[Json]:
        """The events after the last output. Where nothing is carried, the response's output is left to the client."""
        yield from self._numbered(self._items.end(finish_reason))
        new = _items(self._items.pieces)
        items = [] if self.written.said is None else [*self._read().items, *new]
        status = self._status(finish_reason, self.written.any_item or bool(new))
        response = self._envelope(self.written.created, status, items, usage)
        kind = "incomplete" if status == "incomplete" else "completed"
        self.written.ended = True
        yield from self._numbered([{"type": f"response.{kind}", "response": response}])

    def fail(self, error: RequestError) -> Json:
        """The event that ends a response that cannot go on."""
        self.written.ended = True
        return error_event(error, self.written.sequence)

    def save(self, token_ids: Sequence[int]) -> Json:
        """``written`` as JSON, with what was said since it was read. ``token_ids`` are those to be counted later."""
        written = self.written
        written.items = self._items.save()
        written.any_item = written.any_item or bool(_items(self._items.pieces))
        if written.said is not None:
            written.said.add(self._items.pieces, token_ids)
        return written.model_dump(exclude_defaults=True)

    def counted(self, token_ids: Sequence[int]) -> list[int]:
        """All token ids that were kept to be counted, those of this call behind them."""
        return [*self._read().token_ids, *token_ids]

    def _status(self, finish_reason: str | None, said_anything: bool) -> str:
        if self.is_harmony and not said_anything:
            return "incomplete"
        return response_status(finish_reason)

    def _read(self) -> Reading:
        if self._reading is None:
            self._reading = Reading() if self.written.said is None else self.written.said.read()
        return self._reading

    def _earlier(self) -> tuple[str, list[Json]]:
        reading = self._read()
        return reading.text, reading.logprobs

    def _numbered(self, events: Iterable[Json]) -> Iterator[Json]:
        for event in events:
            written = event if self.written.said is not None or "delta" in event else _unrepeated(event)
            yield {**written, "sequence_number": self.written.sequence}
            self.written.sequence += 1


_FIRST = ("created", "in_progress")


def response_status(finish_reason: str | None) -> str:
    """The status of a response whose output ended so."""
    if finish_reason == "abort":
        return "cancelled"
    return "incomplete" if finish_reason == "length" else "completed"


def _items(pieces: Iterable[Piece]) -> list[Json]:
    return [item for piece in pieces for item in piece.items or ()]


def _unrepeated(event: Json) -> Json:
    """An event without what its item's deltas said, for a client that keeps that itself."""
    kept: Json = {name: "" if name in _REPEATED and value else value for name, value in event.items()}
    if "item" in kept:
        kept["item"] = without_text(kept["item"])
    if kept.get("part"):
        kept["part"] = {**kept["part"], "text": ""}
    return kept
