"""What of the text of a tool phase is carried: the rules of ``carried`` for the tool parsers that read it.

A rule names what to save in the place of the text, and of what the parser has
noted of it: offsets move along, and what is cut from the text is cut from its
copies. What a rule cuts was sent to the client, and cannot be read differently
by anything that may still come.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from core.parsing.checkpoint.layout import Changes
from core.parsing.checkpoint.open_string import middle_of_open_string

Rule = Callable[[Changes, Any, Any, Any], None]


def _save_text(changes: Changes, state: Any, text: str) -> None:
    changes.setdefault(id(state), {})["previous_text"] = text


def required_calls(text: str) -> str:
    """The JSON array of ``tool_choice: required`` without the middle of an argument that is being written.

    vLLM scans the array again at every step, for offsets only.
    """
    if len(text) < 256:
        return text
    from vllm.tool_parsers.streaming import _scan_required_tool_calls

    spans = _scan_required_tool_calls(text)
    if not spans or spans[-1].args_start is None or spans[-1].args_end is not None:
        return text
    middle = middle_of_open_string(text)
    return text if middle is None or middle[0] <= spans[-1].args_start else text[: middle[0]] + text[middle[1] :]


def _hermes(changes: Changes, state: Any, tool: Any, _request: Any) -> None:
    """Finds all calls in the text again, and sends what of their arguments is longer than what was sent."""
    text: str = state.previous_text
    opening, closing = tool.tool_call_start_token, tool.tool_call_end_token
    sent = tool._sent_content_idx
    first = text.find(opening)
    changes[id(tool)] = {"_sent_content_idx": 0}
    if first == -1:
        if sent > len(text):
            changes[id(tool)] = {}
        else:
            _save_text(changes, state, text[sent:])
        return
    calls = [dict(call) for call in tool.prev_tool_call_arr]
    streamed = list(tool.streamed_args_for_tool)
    pieces = [text[sent:first]]
    position, index = first, 0
    while (start := text.find(opening, position)) != -1:
        start += len(opening)
        end = text.find(closing, start)
        known = index < len(calls) and index < len(streamed) and "name" in calls[index]
        if end == -1:
            pieces += [opening, _open_call(text[start:], tool, calls, streamed, index) if known else text[start:]]
            break
        body = text[start:end]
        if known:
            arguments = tool._extract_tool_args(body.strip(), True)
            if arguments is None or len(arguments) <= len(streamed[index]):
                # Nothing more will be sent of this call: it only has to be counted.
                body = streamed[index] = ""
                calls[index] = dict.fromkeys(calls[index], "")
        pieces += [opening, body, closing]
        position, index = end + len(closing), index + 1
    else:
        # Between calls, text matters only as the beginning of a marker.
        pieces.append(text[max(position, len(text) - len(opening) + 1) :])
    _save_text(changes, state, "".join(pieces))
    changes[id(tool)] = {"_sent_content_idx": 0, "prev_tool_call_arr": calls, "streamed_args_for_tool": streamed}


def _open_call(body: str, tool: Any, calls: list[dict[str, Any]], streamed: list[str], index: int) -> str:
    sent = streamed[index]
    # What was sent is the body from here on: only its length is compared.
    raw = tool._extract_tool_args(body.strip(), False)
    if raw is None or not sent or not raw.startswith(sent) or calls[index].get("arguments") != sent:
        return body
    middle = middle_of_open_string(sent)
    if middle is None:
        return body
    start = len(body.rstrip()) - len(raw)
    low, high = middle
    streamed[index] = sent[:low] + sent[high:]
    calls[index]["arguments"] = streamed[index]
    return body[: start + low] + body[start + high :]


def _deepseek(separator: str, first_line: bool) -> Rule:
    """Reads the last call of the text, and compares its arguments with those before."""

    def rule(changes: Changes, state: Any, tool: Any, _request: Any) -> None:
        text: str = state.previous_text
        opening = tool.tool_call_start_token
        start = text.rfind(opening)
        if start == -1:
            return
        text = text[start:]
        calls, streamed = list(tool.prev_tool_call_arr), list(tool.streamed_args_for_tool)
        current = tool.current_tool_id
        for index in range(min(current, len(calls) - 1)):
            calls[index] = {}
        for index in range(min(current, len(streamed))):
            streamed[index] = ""
        if 0 <= current < len(calls) and current < len(streamed) and current == len(calls) - 1:
            text = _cut_arguments(text, separator, first_line, calls, streamed, current)
        _save_text(changes, state, text)
        changes[id(tool)] = {"prev_tool_call_arr": calls, "streamed_args_for_tool": streamed}

    return rule


def _cut_arguments(
    text: str, separator: str, first_line: bool, calls: list[Any], streamed: list[str], index: int
) -> str:
    known = calls[index].get("arguments")
    if not isinstance(known, str) or not known or "<｜" in known:
        return text
    line_end = text.find("\n")
    # The name ends at the last separator of the first line; a separator that begins with a line break ends that line.
    start = (
        text.find(separator) if separator[0] == "\n" else text.rfind(separator, 0, line_end if line_end != -1 else None)
    )
    middle = middle_of_open_string(known)
    if start == -1 or middle is None or not text.startswith(known, start := start + len(separator)):
        return text
    low, high = middle
    if streamed[index][:high] != known[:high]:
        return text
    if first_line and (newline := known.find("\n")) >= low and newline < high:
        # The name before the arguments is looked for up to the end of the line.
        return text
    calls[index] = {**calls[index], "arguments": known[:low] + known[high:]}
    streamed[index] = streamed[index][:low] + streamed[index][high:]
    return text[: start + low] + text[start + high :]


def _starts_with(*openings: str) -> Rule:
    """Decides by the beginning of the text whether it holds calls at all; if not, no more of it is read."""
    longest = max(map(len, openings))

    def rule(changes: Changes, state: Any, tool: Any, _request: Any) -> None:
        text: str = state.previous_text
        if len(text) > longest and not text.startswith(openings):
            _save_text(changes, state, text[:longest])

    return rule


def _granite_20b(changes: Changes, state: Any, tool: Any, request: Any) -> None:
    _starts_with(tool.bot_token)(changes, state, tool, request)


def _llama_json(changes: Changes, state: Any, tool: Any, request: Any) -> None:
    _starts_with(tool.bot_token, "{")(changes, state, tool, request)


def _reads_no_text(changes: Changes, state: Any, _tool: Any, _request: Any) -> None:
    _save_text(changes, state, "")


def _asks_for_text(changes: Changes, state: Any, _tool: Any, _request: Any) -> None:
    """Asks only whether there was any text before."""
    _save_text(changes, state, state.previous_text[:1])


def _finds_end(changes: Changes, state: Any, tool: Any) -> None:
    """Looks in the text only for the end of all calls."""
    text: str = state.previous_text
    end = tool.tool_call_end_token + tool.tool_calls_end_token
    _save_text(changes, state, end if end in text else text[max(len(text) - len(end) + 1, 0) :])


def _hy_v3(changes: Changes, state: Any, tool: Any, _request: Any) -> None:
    _finds_end(changes, state, tool)


def _hy_v4(changes: Changes, state: Any, tool: Any, request: Any) -> None:
    if not tool._is_guided(request):
        _finds_end(changes, state, tool._extractor)


def _step3(changes: Changes, state: Any, tool: Any, _request: Any) -> None:
    """Reads the text from a position on."""
    position = tool.position
    if position <= len(state.previous_text):
        _save_text(changes, state, state.previous_text[position:])
        changes[id(tool)] = {"position": 0}


def _k2_horizon(changes: Changes, state: Any, tool: Any, request: Any) -> None:
    """Keeps a text of its own, of which it reads what was not sent yet."""
    _reads_no_text(changes, state, tool, request)
    cursor = tool._stream_cursor
    if tool._stream_resolved:
        changes[id(tool)] = {"_stream_text": "", "_stream_cursor": 0, "_stream_group_start": None}
    elif cursor <= len(tool._stream_text):
        group = tool._stream_group_start
        changes[id(tool)] = {
            "_stream_text": tool._stream_text[cursor:],
            "_stream_cursor": 0,
            "_stream_group_start": None if group is None else group - cursor,
        }


TOOL_TEXT_RULES: dict[str, Rule] = {
    "DeepSeekV3ToolParser": _deepseek("\n```json\n", first_line=False),
    "DeepSeekV31ToolParser": _deepseek("<｜tool▁sep｜>", first_line=True),
    "DotsToolParser": _asks_for_text,
    "Ernie45ToolParser": _reads_no_text,
    "Granite20bFCToolParser": _granite_20b,
    "Granite4ToolParser": _reads_no_text,
    "HYV3ToolParser": _hy_v3,
    "HYV4ToolParser": _hy_v4,
    "Hermes2ProToolParser": _hermes,
    "K2HorizonToolParser": _k2_horizon,
    "Llama3JsonToolParser": _llama_json,
    "Llama4PythonicToolParser": _starts_with("[", "<|python_start|>"),
    "Olmo3PythonicToolParser": _starts_with("<"),
    "Phi4MiniJsonToolParser": _reads_no_text,
    "PoolsideV1ToolParser": _reads_no_text,
    "PythonicToolParser": _starts_with("["),
    "Step3ToolParser": _step3,
}
