"""What several families share in what they read of the text of a tool phase."""

from __future__ import annotations

from typing import Any

from core.parsing.checkpoint.part import Changes, TextRule


def save_text(changes: Changes, state: Any, text: str) -> None:
    """Save ``text`` in the place of the phase's text."""
    changes.setdefault(id(state), {})["previous_text"] = text


def starts_with(*openings: str, attribute: str = "") -> TextRule:
    """For a parser that decides by the beginning of the text whether it holds calls at all; if not, no more is read.

    ``openings`` are the beginnings, and what ``attribute`` of the parser holds is one, too.
    """

    def rule(changes: Changes, state: Any, tool: Any, _request: Any) -> None:
        text: str = state.previous_text
        known = (*openings, getattr(tool, attribute)) if attribute else openings
        longest = max(map(len, known))
        if len(text) > longest and not text.startswith(known):
            save_text(changes, state, text[:longest])

    return rule
