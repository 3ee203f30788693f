"""Sampled ids stay whatever the template makes of them now: only what follows the last answer is rendered.

The last prompt and its output stand as they are. What the template writes
behind the answer is found by rendering once more with a mark in place of the
answer's last words, and once more without the messages after it: both share
the closing of the turn. No earlier answer must be found, since all lie inside
the last prompt, and no template is looked into.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Sequence
from typing import Any

from core.errors import RequestError
from core.turns.asked import Last
from core.turns.exact import Spliced
from core.turns.pieces import Pieces
from core.turns.said import is_answer
from core.turns.state import text_hash

Render = Callable[[Sequence[Any], bool], str]
"""The plain text of some messages; with the flag it ends where the model is to go on."""

CHANGED = "the messages before the last answer, or the tools, are not those of the last prompt"
DROPS = "the template drops reasoning"
UNFINISHED = "the last answer has no content: it was cut off inside reasoning"
_NOT_ONCE = "the template does not write the last answer once"
_NO_END = "the template writes no end of the last answer"
_DEPENDS = "what the template writes behind the last answer depends on it"


def splice_after(
    pieces: Pieces,
    render: Render,
    messages: Sequence[Any],
    answered: int,
    text: str,
    last: Last,
    ends: Collection[int],
    *,
    keep_dropped: bool,
    thought: bool,
) -> Spliced | str:
    """The last prompt and its output, and behind them what is new; a reason where that cannot be.

    ``text`` is the plain prompt's, ``answered`` the place in ``messages`` of
    the answer that the output became, ``ends`` the ids on which an engine stops.
    Without ``keep_dropped`` the template must still write every earlier
    reasoning; ``thought`` says that the last output has some.

    Raises:
        SeamMoved: the rest cannot be encoded by itself.
    """
    if not _follows(render, messages[:answered], last):
        return CHANGED
    mark = _draw()
    marked = list(messages)
    marked[answered] = _marked(messages[answered], mark)
    if marked[answered] is None:
        return UNFINISHED
    thoughts: list[str] = [] if keep_dropped else _mark_thoughts(marked, answered if thought else None)
    try:
        new = render(marked, True)
    except RequestError as exc:
        return f"the template refuses the last answer: {exc.message}"[:200]
    if any(one not in new for one in thoughts):
        return DROPS
    tail = _behind(new, mark)
    if tail is None:
        return _NOT_ONCE
    calls = bool(messages[answered].get("tool_calls"))
    shared = _shared_start(tail, _closing(render, marked[: answered + 1], mark))
    found = _end_of_turn(pieces, tail, shared, last.output[-1], ends, calls=calls)
    if found is None:
        return _NO_END
    cut, drops_last = found
    if not text.endswith(tail[cut:]):
        return _DEPENDS
    ids = [*last.token_ids, *last.output]
    if drops_last:
        ids.pop()
    spans = [*last.state.pairs, (len(last.token_ids), len(ids))]
    return Spliced(ids, pieces.encode(tail[cut:], ids[-1]), "append", None, spans)


def _follows(render: Render, before: Sequence[Any], last: Last) -> bool:
    """Whether the messages before the answer are those of the last prompt: their plain text says so."""
    try:
        plain = render(before, True)
    except RequestError:
        return False
    return len(plain) == last.state.chars and text_hash(plain) == last.state.text


def _draw() -> str:
    # ASCII, since JSON escapes the rest, and without blanks, which templates trim; drawn, so that no text can hold it.
    return f"Mark{secrets.token_hex(8)}Q"


def _marked(message: Any, mark: str) -> Any:
    """The answer with a mark as the last that it says; None when it says nothing."""
    calls = message.get("tool_calls")
    if calls:
        function = calls[-1].get("function")
        if not function:
            return None
        last = {**calls[-1], "function": {**function, "arguments": {"x": mark}}}
        return {**message, "tool_calls": [*calls[:-1], last]}
    return {**message, "content": mark} if message.get("content") else None


def _mark_thoughts(messages: list[Any], thinking: int | None) -> list[str]:
    """Put a mark into every reasoning in place; ``thinking`` is an answer that had some, sent back or not."""
    marks = []
    for place, message in enumerate(messages):
        if is_answer(message) and (message.get("reasoning") or place == thinking):
            marks.append(_draw())
            messages[place] = {**message, "reasoning": marks[-1]}
    return marks


def _behind(text: str, mark: str) -> str | None:
    """What stands behind a mark; None when it is not there exactly once."""
    at = text.find(mark)
    if at < 0 or text.find(mark, at + 1) >= 0:
        return None
    return text[at + len(mark) :]


def _closing(render: Render, messages: Sequence[Any], mark: str) -> str:
    """What the template writes behind the answer when nothing follows."""
    try:
        return _behind(render(messages, False), mark) or ""
    except RequestError:
        return ""


def _shared_start(one: str, other: str) -> str:
    for place, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return one[:place]
    return one[: len(other)]


def _end_of_turn(
    pieces: Pieces, tail: str, shared: str, sampled: int, ends: Collection[int], *, calls: bool
) -> tuple[int, bool] | None:
    """Where in ``tail`` the next messages begin, and whether the last sampled id has to go; None: nobody can say.

    ``shared`` is the closing of the turn, as far as it does not depend on what follows.
    """
    special = sampled in pieces.special
    end = pieces.added.get(sampled, "")
    if special and end in shared:
        return shared.index(end) + len(end), False
    if special and tail.startswith(end, len(shared)):
        return len(shared) + len(end), False  # the engine stopped at the header of the next message
    # Cut off by its length, or ended by another token than the one that the template writes.
    closings = [tail.index(pieces.added[one]) for one in ends if one in pieces.added and pieces.added[one] in shared]
    if not closings and not calls:
        closings = [tail.index(pieces.added[one]) for one in pieces.special if pieces.added[one] in tail]
    return (min(closings), special) if closings else None
