"""What a rendering lost of its request, found at next to no cost: nobody else sees request and prompt side by side.

    dropped         words of a message, or a tool, are not in the prompt
    unconstrained   a forced call that nothing holds the model to
    no_call         tools beside a response format that makes a call impossible

A text that stands in the prompt as it was given is found by one search, all of
them in one pass. Only where one is not, the words of the rest are looked up: a
template may trim, escape or rearrange them. Reasoning of earlier turns is not
looked for, which many templates leave out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from core.upstream.requests import answer_format, forced_tool

KINDS = ("dropped", "unconstrained", "no_call")

_WORD = re.compile(r"\w+")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|([nrtbf\"\\/]))")
_THOUGHT = re.compile(r"^.*</think>", re.DOTALL)


def audit_prompt(
    request: Any,
    messages: Sequence[Any],
    tools: Sequence[Mapping[str, Any]] | None,
    prompt: str,
    params: Mapping[str, Any] | None,
) -> list[str]:
    """The kinds of what is wrong, in the order of ``KINDS``.

    ``request`` is vLLM's, ``messages`` are those of a chat, ``tools`` those that
    the template was shown, ``prompt`` is the text of the prompt. ``params`` are the
    sampling parameters; None where nothing is generated, and nothing constrained.
    """
    found = []
    if not _holds(prompt, _texts(messages, tools or ())):
        found.append("dropped")
    if params is None or not request.tools or request.tool_choice in (None, "none"):
        return found
    constraint = params.get("structured_outputs")
    if forced_tool(request) is not None:
        if not constraint:
            found.append("unconstrained")
    elif answer_format(request) != "text" and constraint and not constraint.get("structural_tag"):
        found.append("no_call")
    return found


def lost_words(
    messages: Sequence[Any], tools: Sequence[Mapping[str, Any]] | None, prompt: str, most: int = 50
) -> list[str]:
    """The first words of a request that are not in its prompt, each once; see :func:`audit_prompt`."""
    said = set(_WORD.findall(_ESCAPE.sub(_unescaped, prompt)))
    lost = (word for text in _texts(messages, tools or ()) for word in _WORD.findall(text) if word not in said)
    return list(islice(dict.fromkeys(lost), most))


def _texts(messages: Sequence[Any], tools: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What the model has to be told, in the order of a prompt: the tools' names, then what the messages say."""
    for tool in tools:
        yield tool["function"]["name"]
    for message in messages:
        fields: Mapping[str, Any] = message if isinstance(message, Mapping) else message.model_dump()
        content = fields.get("content")
        parts = content if isinstance(content, list) else [content]
        for part in parts:
            text = part.get("text") if isinstance(part, Mapping) else part
            if isinstance(text, str):
                yield _THOUGHT.sub("", text) if fields.get("role") == "assistant" and "</think>" in text else text
        for call in fields.get("tool_calls") or ():
            function = call.get("function") if isinstance(call, Mapping) else None
            if isinstance(function, Mapping) and isinstance(function.get("name"), str):
                yield function["name"]


def _holds(prompt: str, texts: Iterator[str]) -> bool:
    """Whether all texts are in the prompt, as they are or word by word."""
    place = 0
    words: set[str] | None = None
    for text in texts:
        if words is None:
            stripped = text.strip()
            found = prompt.find(stripped, place)
            if found >= 0:
                place = found
                continue
            # From here on word by word: another search over all of the prompt for each text would add up.
            words = set(_WORD.findall(_ESCAPE.sub(_unescaped, prompt)))
        if not words.issuperset(_WORD.findall(text)):
            return False
    return True


def _unescaped(match: re.Match[str]) -> str:
    """The character of an escape in JSON text; half a pair, and white space, is no part of a word."""
    code = match[1]
    return chr(int(code, 16)) if code is not None and not 0xD800 <= int(code, 16) < 0xE000 else " "
