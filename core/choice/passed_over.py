"""Text of which a parser says nothing: whether it says something itself, or is only markup."""

from __future__ import annotations

import re

from core.choice.markers import MARKUP, without_markup

# Words that belong to markup: what templates write behind a marker.
_HEADER = re.compile(
    r"\s*(?:Here(?: is|'s) my (?:thought process|response):?|thought|analysis|final|commentary|assistant|json|function"
    r"|code)?[\s`]*"
)
_WORD = re.compile(r"\w")
# The end of a tag, or a whole one, that closes something.
_CLOSING = re.compile(r"^[\w:/|]{1,40}>|</[^<>\n]{1,60}>")
# What ends something else, before a text.
_CLOSINGS = re.compile(r"(?:\s*(?:</[^<>\n]{1,60}>|<\|(?:end|im_end)\|>))+\s*")
_ENDINGS = re.compile(rf"(?:\s*(?:</[^<>\n]{{1,60}}>|{MARKUP}))+")
# The header of a harmony message that is for the user.
_MESSAGE = re.compile(
    r"\s*(?:<\|start\|>(?!.{0,60}to=)[^<>\n]{0,60})?(?:<\|channel\|>(?!.{0,60}to=)[^<>\n]{0,60})?<\|message\|>"
)

_THOUGHT = re.compile(
    r"(?:\s*(?:<think>|◁think▷|\[THINK\]))?(?P<thought>.*?)(?:</think>|◁/think▷|\[/THINK\])(?:\s*<answer>)?", re.DOTALL
)


def split_thought(text: str) -> tuple[str, str]:
    """The reasoning before its end marker, and the text behind that; no reasoning where there is no such marker."""
    thought = _THOUGHT.match(text)
    return ("", text) if thought is None else (thought["thought"], text[thought.end() :])


def is_text(text: str) -> bool:
    """Whether a text says anything, apart from markup."""
    plain = without_markup(text)
    return bool(plain.strip()) and _HEADER.fullmatch(plain) is None


def is_rest(text: str) -> bool:
    """Whether a text is only what ends a call: closing tags, brackets, quotes."""
    return _WORD.search(without_markup(_CLOSING.sub("", text))) is None


def without_endings(text: str, *, markup: bool) -> str:
    """A text without what stands before it: tags that close something else, with ``markup`` any, a message's header."""
    ending = (_ENDINGS if markup else _CLOSINGS).match(text)
    place = 0 if ending is None else ending.end()
    header = _MESSAGE.match(text, place)
    return text[place if header is None else header.end() :]
