"""The parsers of the Hermes format, which LongCat writes, too."""

from __future__ import annotations

from typing import Any

from core.parsing.checkpoint.kinds import COUNT
from core.parsing.checkpoint.open_string import middle_of_open_string
from core.parsing.checkpoint.part import Changes, Part, Parts, Reads
from core.upstream.v0_33.phase_text import save_text


def _cut_calls(changes: Changes, state: Any, tool: Any, _request: Any) -> None:
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
            save_text(changes, state, text[sent:])
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
    save_text(changes, state, "".join(pieces))
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


PARTS: Parts = {
    "vllm.tool_parsers.hermes_tool_parser.Hermes2ProToolParser": Part(
        {"_sent_content_idx": COUNT}, reads=Reads(markers=(), text=_cut_calls)
    ),
    "vllm.tool_parsers.longcat_tool_parser.LongcatFlashToolParser": Part(),
}
