"""Whether the answer that a client sends back is the one that was sampled.

The ids of the answer are read again as derender reads them, and compared with
the message. Clients may trim the text, leave out reasoning, and write the JSON
of arguments their way; nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from core.choice.output import ChoiceOutput
from core.choice.reader import OutputReader
from core.derender.chat import read_chat
from core.errors import RequestError
from core.model import Model
from core.protocol.engine import Choice, GenerateResponse, StreamChoice
from core.protocol.output_options import OutputOptions
from core.turns.asked import Last

EDITED = "the last answer is not the one that was sampled"
# Streams are read token by token, some 0.1 ms each, and only when reading in one piece did not find the answer.
_MOST_STREAMED = 4096


class Said(NamedTuple):
    """What a message says, in a form that is the same for equal messages; ``reasoning`` may be left out."""

    content: str
    calls: tuple[tuple[str, str], ...]
    reasoning: str | None = None

    def is_told_by(self, sent: Said) -> bool:
        """Whether a message that was sent back tells this; it may leave out the reasoning."""
        same = not sent.reasoning or sent.reasoning == self.reasoning
        return same and (self.content, self.calls) == (sent.content, sent.calls)


def is_answer(message: Any) -> bool:
    """Whether a message is the assistant's; vLLM's requests also hold messages that are no mappings."""
    return isinstance(message, Mapping) and message.get("role") == "assistant"


def said_in(message: Mapping[str, Any]) -> Said:
    """What an assistant's message says."""
    reasoning = message.get("reasoning")
    if reasoning is None:
        reasoning = message.get("reasoning_content")
    return Said(
        _text(message.get("content")).strip(),
        tuple(_calls(message.get("tool_calls") or ())),
        None if reasoning is None else _text(reasoning).strip(),
    )


def readings(model: Model, request: Any, options: OutputOptions, last: Last) -> Iterator[Said]:
    """What the last output says: in one piece, in one piece repaired (as the relay reads), as a stream.

    Each reading is made only where those before were not what was sent back.
    ``request`` is vLLM's that continues, ``options`` are its; its tools are those of the last one.
    """
    for read in (_whole, _repaired, _streamed):
        try:
            yield read(model, request, options, last)
        except RequestError:
            continue


def _whole(model: Model, request: Any, options: OutputOptions, last: Last, *, repaired: bool = False) -> Said:
    source = GenerateResponse(choices=[Choice(index=0, token_ids=last.output)], prompt_token_ids=last.token_ids)
    (output,) = read_chat(model, source, options, request, last.token_ids, repaired=repaired)
    return said_by([output])


def _repaired(model: Model, request: Any, options: OutputOptions, last: Last) -> Said:
    return _whole(model, request, options, last, repaired=True)


def _streamed(model: Model, request: Any, options: OutputOptions, last: Last) -> Said:
    if model.chat_parser is None or len(last.output) > _MOST_STREAMED:
        raise RequestError("not read as a stream")
    # Late: only a deployment with a parser has vLLM's modules loaded.
    from core.choice.parsed import ParsedStream
    from core.parsing.live import start_stream

    reader = OutputReader(model, options, parsed=True)
    live = start_stream(model.chat_parser, request, last.token_ids, reader.decode, repaired=False)
    stream = ParsedStream(reader, live, last.token_ids)
    final = len(last.output) - 1
    outputs, budget = [], model.chat_parser.budget()
    try:
        for place, number in enumerate(last.output):
            budget.check()
            reason = "stop" if place == final else None
            outputs.append(stream.advance(StreamChoice(index=0, token_ids=[number], finish_reason=reason)))
    except RequestError:
        raise
    except Exception as exc:  # a parser that meets anything at all may raise anything
        raise RequestError("the parser cannot read it") from exc
    return said_by(outputs)


def said_by(outputs: Sequence[ChoiceOutput]) -> Said:
    """What a choice says, from all its outputs."""
    calls: dict[int, list[str]] = {}
    for output in outputs:
        for place, call in enumerate(output.tool_calls):
            function = call["function"]
            if function is not None:
                parts = calls.setdefault(call.get("index", place), ["", ""])
                parts[0] += function["name"] or ""
                parts[1] += function["arguments"] or ""
    return Said(
        "".join(output.content or "" for output in outputs).strip(),
        tuple((name, canonical_json(arguments)) for name, arguments in calls.values()),
        "".join(output.reasoning or "" for output in outputs).strip(),
    )


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, Sequence) else ()
    return "\n".join(str(part.get("text") or "") for part in parts if isinstance(part, Mapping))


def _calls(calls: Sequence[Any]) -> Iterator[tuple[str, str]]:
    for call in calls:
        function = call.get("function") if isinstance(call, Mapping) else None
        if isinstance(function, Mapping):
            yield str(function.get("name")), canonical_json(function.get("arguments") or "{}")


def canonical_json(value: Any) -> str:
    """JSON in one spelling, from a text or a value; a text that is none stays as it is, trimmed."""
    if isinstance(value, str):
        try:
            parsed = json.loads(value or "{}")
        except (ValueError, RecursionError):
            return value.strip()
    else:
        parsed = value
    try:
        return json.dumps(_plain_numbers(parsed), sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        return str(value).strip()


def _plain_numbers(value: Any) -> Any:
    """Whole numbers as such: JavaScript writes 1 for 1.0."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, dict):
        return {str(name): _plain_numbers(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain_numbers(item) for item in value]
    return value
