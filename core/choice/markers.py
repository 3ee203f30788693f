"""The markup that models write around reasoning and tool calls, of all families.

A parser that fits its model lets none of it through. So what is found in
visible text tells that the parser is another family's, or was led astray.
Only what prose and code do not contain by themselves is listed.
"""

from __future__ import annotations

import re
from functools import cache

# No marker is longer, so this much of a text's end has to be kept to find one that comes in pieces.
LONGEST = 48

_NAMES = (
    r"think|tool_calls?|tool_sep|arg_(?:key|value)|seed:think|seed:tool_call|minimax:tool_call|longcat_tool_call|dots_function_call"
    r"|ifm\|[a-z_]{1,16}"
)
_MARKERS = (
    r"<\|(?:open|close)\|>[^<>\n]{0,40}<\|sep\|>",  # kimi_k3's tags, with what stands in them
    r"<\|start\|>assistant|<\|channel\|>[a-z]{0,12}",  # harmony's headers
    rf"</?(?:{_NAMES})>",
    r"<\|[a-z][a-z_:]{1,40}\|>",  # <|im_start|>, <|tool_call_begin|>, <|channel|>, <|plamo:...|>
    r"<\|(?:channel|tool_call|tool_response)>|<(?:channel|tool_call|turn)\|>",
    r"</?｜[A-Za-z▁_]{1,40}｜",  # deepseek, step3
    r"</?(?:start|end)_function_call>",
    r"<function(?:=|_call>)",
    r"</?parameter(?:=|>)",
    r"\[TOOL_CALLS\]|\[ARGS\]|\[/?THINK\]",
    r"◁/?think▷",
    r"\]<\]minimax\[>\[",
)
MARKUP = "|".join(_MARKERS)
# The pattern of what begins calls, of those whose calls are objects with a name in them.
CALLS_BEGIN = (
    r"<tool_calls?>|<\|tool_calls?\|?>|<\|python_tag\|>|\[TOOL_CALLS\]|<｜tool▁calls▁begin｜>|<\|tool_calls_section_begin\|>"
    r"|<(?:dots_function_call|longcat_tool_call|start_function_call)>|<\|action_start\|>"
)

# Where markup may begin: all else of a text is passed over at once.
_BEGINS = re.compile(r"[<\[\]◁]")


@cache
def _markup() -> re.Pattern[str]:
    """Compiled when something may be markup: most cold starts end without."""
    return re.compile(MARKUP)


def may_begin_markup(text: str) -> bool:
    """Whether anything in a text may be the beginning of markup."""
    # The expression reads each character; these look for one at a time, much faster.
    return "<" in text or "[" in text or "]" in text or "◁" in text


def has_markup(text: str) -> bool:
    """Whether a model's markup stands in a text."""
    found = _BEGINS.search(text) if may_begin_markup(text) else None
    while found is not None:
        if _markup().match(text, found.start()):
            return True
        found = _BEGINS.search(text, found.end())
    return False


def open_markup(text: str) -> str:
    """The end of a text that may be the beginning of markup, as far as it matters for what comes behind it."""
    found = _BEGINS.search(text, max(len(text) - LONGEST, 0))
    return text[found.start() :] if found is not None else ""


def without_markup(text: str) -> str:
    """A text without what is recognized as markup."""
    return _markup().sub("", text) if has_markup(text) else text
