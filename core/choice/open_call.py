"""A call on its way: what the parser says of it, and where its object stands in the text."""

from __future__ import annotations

from core.choice.audit import is_object
from core.choice.json_object import MAX_STATE, JsonObject
from core.choice.written_object import ObjectEnd
from core.json import JsonValue


class OpenCall:
    """A call that is not let out yet.

    ``index``, ``id``, ``name`` and ``arguments`` are the parser's. ``written``
    follows the object that the model writes; ``unwritten`` says that it writes
    none. With ``doubted`` the parser said something else while the model was
    still writing the object: that stands within it.
    """

    def __init__(self, index: int) -> None:
        self.index = index
        self.id: str | None = None
        self.name = ""
        self._parts: list[str] = []
        self._object = JsonObject()
        self.written: ObjectEnd | None = None
        self.unwritten = False
        self.doubted = False

    def say(self, arguments: str) -> None:
        """Take a part of the arguments."""
        self._parts.append(arguments)
        self._object.feed(arguments)

    @property
    def arguments(self) -> str:
        if len(self._parts) != 1:
            self._parts = ["".join(self._parts)]
        return self._parts[0]

    @property
    def complete(self) -> bool:
        """Whether the parser's arguments are an object."""
        return self._object.complete and is_object(self.arguments)

    @property
    def within(self) -> bool:
        """Whether the model is still writing the call's object."""
        return self.written is not None and self.written.end is None

    def save(self) -> JsonValue:
        """JSON values for a checkpoint."""
        written = None if self.written is None else self.written.save()
        told = [self.index, self.id, self.name, self.arguments, self._object.state]
        return [*told, written, self.unwritten, self.doubted]

    @classmethod
    def load(cls, saved: JsonValue, size: int) -> OpenCall:
        """One that was saved, beside a text of ``size`` characters.

        Raises:
            ValueError: it is nothing that was saved.
        """
        index, call_id, name, arguments, state, written, unwritten, doubted = saved
        if not (type(index) is int and type(unwritten) is type(doubted) is bool):
            raise ValueError("not a call")
        if not all(isinstance(text, str) for text in (name, arguments, call_id or "", state or "")):
            raise ValueError("not a call")
        if state is not None and len(state) > MAX_STATE:
            raise ValueError("not a call")
        known = cls(index)
        known.id, known.name, known.unwritten, known.doubted = call_id, name, unwritten, doubted
        known._parts, known._object = [arguments], JsonObject(state)
        known.written = None if written is None else ObjectEnd.load(written, size)
        return known
