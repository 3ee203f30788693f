"""Whether the end of a text is shown: what is held back as the possible beginning of a call may never be."""

from __future__ import annotations

import re
from typing import NamedTuple

from core.choice.markers import LONGEST, without_markup

_WORD = re.compile(r"\w{2,}")
# So much of a text is looked at, of which as much again may be markup; and so much of what is shown.
_MOST = 2 * LONGEST
MAX_SHOWN = 2 * _MOST + 1


class ShownEnd(NamedTuple):
    """How a text and what is shown of it keep together: both empty while they do.

    Else it is the text since its last word was shown, and what was shown since.
    """

    text: str = ""
    shown: str = ""

    def after(self, text: str, content: str | None, reasoning: str | None) -> ShownEnd:
        """The same after one more chunk; ``text`` is what was decoded of it."""
        if not self.text and text == (content or reasoning or "") and not (content and reasoning):
            return self
        # Each its end: a text may go on with either.
        said = "\n".join(part[-_MOST:] for part in (reasoning, content) if part)
        end = ShownEnd((self.text + text)[-_MOST:], (self.shown + said)[-MAX_SHOWN:])
        word = end._last_word()
        return TOGETHER if word is not None and word in end.shown else end

    @property
    def held(self) -> bool:
        """Whether the last word of the text is not shown."""
        word = self._last_word()
        return word is not None and word not in self.shown

    def _last_word(self) -> str | None:
        words = _WORD.findall(without_markup(self.text)[-LONGEST:])
        # The first word may be cut, and is found all the same.
        return words[-1] if words else None


TOGETHER = ShownEnd()
