"""Whether the arguments of a call are complete, from where they come in pieces: only where they stand is kept."""

from __future__ import annotations

import re

from pydantic import BaseModel, ConfigDict, Field

# What changes where a JSON text stands: brackets, and the quotes and escapes of strings.
_TURNS = re.compile(r'["\\{}\[\]]')


class ArgumentsEnd(BaseModel):
    """Where a JSON text stands that has come so far. Its brackets and strings are read, the rest is not."""

    model_config = ConfigDict(extra="forbid")

    depth: int = Field(default=0, ge=-1)
    begun: bool = False
    in_string: bool = False
    escaped: bool = False

    @property
    def complete(self) -> bool:
        """Whether every bracket that was opened is closed."""
        return self.begun and self.depth == 0 and not self.in_string

    def read(self, text: str) -> None:
        """Read the next piece."""
        place = 0
        if self.escaped and text:
            self.escaped, place = False, 1
        while (found := _TURNS.search(text, place)) is not None:
            place = found.end()
            sign = found[0]
            if sign == '"':
                self.in_string = not self.in_string
            elif self.in_string:
                if sign == "\\":
                    self.escaped = place == len(text)
                    place += 1
            elif sign in "{[":
                self.begun = True
                self.depth += 1
            elif sign in "}]":
                self.depth = max(self.depth - 1, -1)
