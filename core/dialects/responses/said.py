"""What a stream has said so far, which its last events say again: carried as text that only grows.

An item's last event repeats its text, and the response's last event all items.
A server that keeps nothing must be told it by the state. It is read only where
an item ends: until then new text is put behind the old. What is longer than a
block is compressed once and not looked at again, so that a call costs nearly
the same after ten thousand tokens.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from core.errors import BadRequest, InvalidState
from core.json import Json
from core.protocol.json_text import json_bytes
from core.upstream.responses_events import Piece

BLOCK = 4096
# Far more than any answer, log probabilities and all.
MAX_SIZE = 16 * 1024 * 1024
_PARAM = "stream_state.written"
_IDS, _LOGPROBS, _ITEMS = "n", "l", "i"
# Items whose text is a field of their own; that of others stands in their first part.
_FIELDS = {
    "function_call": "arguments",
    "mcp_call": "arguments",
    "custom_tool_call": "input",
    "code_interpreter_call": "code",
}


class Said(BaseModel):
    """Lines of JSON: ``blocks`` are compressed, ``tail`` is not yet; ``size`` counts the characters of both."""

    model_config = ConfigDict(extra="forbid")

    blocks: list[str] = Field(default_factory=list, max_length=MAX_SIZE // BLOCK)
    tail: str = Field(default="", max_length=MAX_SIZE)
    size: int = Field(default=0, ge=0, le=MAX_SIZE)

    def add(self, pieces: Sequence[Piece], token_ids: Sequence[int]) -> None:
        """Put what a call says behind what was said; ``token_ids`` are those that must be counted in the end.

        Raises:
            BadRequest: it is more than any answer; says what to do.
        """
        lines: list[Any] = [{_IDS: list(token_ids)}] if token_ids else []
        for piece in pieces:
            if piece.text:
                lines.append(piece.text)
            if piece.logprobs:
                lines.append({_LOGPROBS: piece.logprobs})
            if piece.items is not None:
                lines.append({_ITEMS: [without_text(item) for item in piece.items]})
        added = "".join(json_bytes(line).decode() + "\n" for line in lines)
        self.size += len(added)
        if self.size > MAX_SIZE:
            raise BadRequest("the response is too long to be carried; set carry_output to false", "carry_output")
        self.tail += added
        if len(self.tail) > BLOCK:
            self.blocks.append(base64.b64encode(zlib.compress(self.tail.encode(), 6)).decode("ascii"))
            self.tail = ""

    def read(self) -> Reading:
        """All that was said.

        Raises:
            InvalidState: it is nothing that was written.
        """
        reading = Reading()
        try:
            for line in self._lines():
                reading.take(json.loads(line))
        except (ValueError, TypeError, LookupError, AttributeError, zlib.error, RecursionError) as exc:
            raise InvalidState("written is damaged", _PARAM) from exc
        return reading

    def _lines(self) -> Iterator[str]:
        left = MAX_SIZE
        for block in self.blocks:
            text = _unpacked(block, left)
            left -= len(text)
            yield from text.split("\n")[:-1]
        yield from self.tail.split("\n")[:-1]


class Reading:
    """What was said: ``items`` that are complete, and of the open one its text and log probabilities.

    ``token_ids`` are all that were kept to be counted.
    """

    def __init__(self) -> None:
        self.items: list[Json] = []
        self.token_ids: list[int] = []
        self.logprobs: list[Json] = []
        self._text: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self._text)

    def take(self, line: Any) -> None:
        """Read a line on.

        Raises:
            ValueError, TypeError, LookupError, AttributeError: it is no such line.
        """
        if isinstance(line, str):
            self._text.append(line)
            return
        ((kind, content),) = line.items()
        if kind == _IDS:
            if any(type(token_id) is not int for token_id in content):
                raise ValueError("no ids")
            self.token_ids += content
        elif kind == _LOGPROBS:
            self.logprobs += content
        elif kind == _ITEMS:
            self.items += [_with_text(item, self.text, self.logprobs) for item in content]
            self._text.clear()
            self.logprobs = []
        else:
            raise ValueError("no such line")


def without_text(item: Json) -> Json:
    """A copy of an item without the text that its deltas said."""
    field = _FIELDS.get(item["type"])
    if field is not None:
        return {**item, field: ""} if item.get(field) else item
    parts = item.get("content")
    if not parts:
        return item
    first = {**parts[0], "text": ""}
    if first.get("logprobs"):
        first["logprobs"] = []
    return {**item, "content": [first, *parts[1:]]}


def _with_text(item: Json, text: str, logprobs: list[Json]) -> Json:
    field = _FIELDS.get(item["type"])
    if field is not None:
        return {**item, field: text}
    parts = item.get("content")
    if not parts:
        return item
    first = {**parts[0], "text": text}
    if first.get("logprobs") == []:
        first["logprobs"] = logprobs
    return {**item, "content": [first, *parts[1:]]}


def _unpacked(block: str, most: int) -> str:
    inflater = zlib.decompressobj()
    try:
        text = inflater.decompress(base64.b64decode(block, validate=True), max(most, 1))
    except binascii.Error as exc:
        raise ValueError("no base64") from exc
    if not inflater.eof or inflater.unused_data:
        raise ValueError("no block, or too long a one")
    return text.decode()
