"""Finding the stop string that is complete first, in one pass over the text, however many there are.

Aho and Corasick's automaton: a step for each character, whatever the strings.
A text may come in pieces; between them nothing is kept but the state, a number.
It must never look for one string after another: a thousand of them would cost
a thousand passes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from core.errors import BadRequest

# More than any caller has; each string costs memory for its characters before the first token is read.
MAX_STRINGS = 1024
MAX_CHARS = 65_536


class StopSearch:
    """Looks for all of a request's stop strings (not empty ones) at once.

    Shared between choices: ``feed`` changes nothing here.

    Raises:
        BadRequest: there are more strings, or longer ones, than are read.
    """

    def __init__(self, strings: Sequence[str]) -> None:
        if len(strings) > MAX_STRINGS or sum(map(len, strings)) > MAX_CHARS:
            raise BadRequest(f"stop must hold at most {MAX_STRINGS} strings and {MAX_CHARS} characters", "stop")
        self.strings = tuple(strings)
        self._next: list[dict[str, int]] = [{}]
        # For each state: how many characters of a string are seen, and the first string in the list that ends here.
        self._depth = [0]
        self._ending: list[int | None] = [None]
        for number, string in enumerate(self.strings):
            self._add(number, string)
        self._fallback = self._fallbacks()

    def _add(self, number: int, string: str) -> None:
        state = 0
        for char in string:
            following = self._next[state].get(char)
            if following is None:
                following = len(self._next)
                self._next[state][char] = following
                self._next.append({})
                self._depth.append(self._depth[state] + 1)
                self._ending.append(None)
            state = following
        if self._ending[state] is None:
            self._ending[state] = number

    def _fallbacks(self) -> list[int]:
        """For each state the one of its longest proper ending that begins a string."""
        fallback = [0] * len(self._next)
        waiting = deque(self._next[0].values())
        while waiting:
            state = waiting.popleft()
            for char, following in self._next[state].items():
                other = fallback[state]
                while other and char not in self._next[other]:
                    other = fallback[other]
                fallback[following] = self._next[other].get(char, 0)
                waiting.append(following)
            # Strings that end a longer one end here, too.
            shorter = self._ending[fallback[state]]
            own = self._ending[state]
            if shorter is not None and (own is None or shorter < own):
                self._ending[state] = shorter
        return fallback

    def matched(self, state: int) -> int:
        """How many of the last characters may be the beginning of a stop string."""
        while state and not self._next[state]:
            state = self._fallback[state]
        return self._depth[state]

    def feed(self, state: int, text: str, after: int = 0) -> tuple[int, tuple[int, str] | None]:
        """Read the next text from ``state`` (0 at the start): the new state, and where a string is complete first.

        That is the number of characters of ``text`` read up to its end, more
        than ``after``, and the string; with ties the earlier one in the list.
        """
        step, fallback, ending = self._next, self._fallback, self._ending
        for place, char in enumerate(text, 1):
            while state and char not in step[state]:
                state = fallback[state]
            state = step[state].get(char, 0)
            found = ending[state]
            if found is not None and place > after:
                return state, (place, self.strings[found])
        return state, None
