"""Every parser and the usual pairs in Messages and Responses: joined streams against whole answers.

``python -m tests.dialects.table`` runs the outputs of ``tests/equality`` through both dialects and through chat, and
writes ``docs/results/dialects.md``. A stream that differs from its whole answer as the chat's stream does from the
chat's is vLLM's parser's doing (docs/equality.md); what differs otherwise has a reason of its own. Read repaired, all
answers to an output are one.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import vllm.logger

from core.choice.audit import is_object
from core.choice.output import unreported
from core.dialects import DIALECTS
from core.dialects.dialect import Dialect
from core.errors import RequestError
from core.model import Model
from tests.equality import joined
from tests.equality.cases import Models, cases, pairs
from tests.equality.wire import Case, engine_chunks
from tests.support.models import model_folders

Json = dict[str, Any]
PAGE = Path(__file__).parents[2] / "docs" / "results" / "dialects.md"
CHUNKINGS = ("by 1", "by 7", "whole")
_BY_NAME = {dialect.name: dialect for dialect in DIALECTS}
# What a request may hold to be put in the words of every dialect.
KNOWN = {"model", "messages", "tools", "tool_choice", "chat_template_kwargs", "parallel_tool_calls"}
# Inputs are read as objects, and their spelling is lost.
_HARMLESS = frozenset({"arguments: spelling", "content: white space", "reasoning: white space"})
REASONS = {
    "input": "the arguments are no JSON object. The `input` of a whole message is one all the same, of what can be read; the stream "
    "passes on what was written. vLLM refuses the whole message (400), and streams the same",
    "tools": "the parser knows tools in the form of a chat's, and raises an error over those of Responses: in vLLM the whole answer is "
    "refused or has no calls, and the stream breaks off",
    "name": "the parser's stream begins a call without its name, and vLLM's events have no such call: the stream breaks off",
}
"""Why a stream differs from its whole answer otherwise than the chat's does, for the page."""


def messages_request(chat: Json) -> Json:
    """A chat request in the words of Messages."""
    tools = [tool["function"] for tool in chat.get("tools") or ()]
    body: Json = {"model": "m", "max_tokens": 1000, "messages": chat["messages"]}
    if tools:
        body["tools"] = [{"name": tool["name"], "input_schema": tool["parameters"]} for tool in tools]
    choice = chat.get("tool_choice")
    one_call = {"disable_parallel_tool_use": True} if chat.get("parallel_tool_calls") is False else {}
    if choice is not None:
        words = {"auto": {"type": "auto"}, "none": {"type": "none"}, "required": {"type": "any"}}
        named = not isinstance(choice, str)
        body["tool_choice"] = {"type": "tool", "name": choice["function"]["name"]} if named else words[choice]
    if one_call:
        body["tool_choice"] = {"type": "auto", **body.get("tool_choice", {}), **one_call}
    return body | {name: chat[name] for name in ("chat_template_kwargs",) if name in chat}


def responses_request(chat: Json) -> Json:
    """A chat request in the words of Responses."""
    body: Json = {"model": "m", "input": chat["messages"]}
    body["tools"] = [{"type": "function", **tool["function"]} for tool in chat.get("tools") or ()]
    choice = chat.get("tool_choice")
    if choice is not None:
        named = not isinstance(choice, str)
        body["tool_choice"] = {"type": "function", "name": choice["function"]["name"]} if named else choice
    kept = ("chat_template_kwargs", "parallel_tool_calls")
    return body | {name: chat[name] for name in kept if name in chat}


def of_message(message: Json) -> Json:
    """A ``Message`` in the form of ``tests.equality.joined``."""
    blocks = message["content"]
    return _form(
        "".join(block["text"] for block in blocks if block["type"] == "text"),
        "".join(block["thinking"] for block in blocks if block["type"] == "thinking"),
        [(block["name"], json.dumps(block["input"])) for block in blocks if block["type"] == "tool_use"],
    )


def of_message_events(events: list[Json]) -> Json:
    """The events of a message, joined."""
    blocks: list[Json] = []
    for event in events:
        if event["type"] == "content_block_start":
            blocks.append({**event["content_block"], "said": ""})
        elif event["type"] == "content_block_delta":
            delta = event["delta"]
            blocks[event["index"]]["said"] += (
                delta.get("text") or delta.get("thinking") or delta.get("partial_json") or ""
            )
    said = [(block["type"], block.get("name"), block["said"]) for block in blocks]
    return _form(
        "".join(text for kind, _, text in said if kind == "text"),
        "".join(text for kind, _, text in said if kind == "thinking"),
        [(name, text) for kind, name, text in said if kind == "tool_use"],
    )


def of_response(response: Json) -> Json:
    """A ``Response`` in the form of ``tests.equality.joined``."""
    items = response["output"]
    return _form(
        "".join(part["text"] for item in items if item["type"] == "message" for part in item["content"]),
        "".join(part["text"] for item in items if item["type"] == "reasoning" for part in item["content"]),
        [(item["name"], item["arguments"]) for item in items if item["type"] == "function_call"],
    )


def of_response_events(events: list[Json]) -> Json:
    """The events of a response, joined from their deltas."""
    items: dict[str, Json] = {}
    for event in events:
        if event["type"] == "response.output_item.added":
            items[event["item"]["id"]] = {**event["item"], "said": ""}
        elif event["type"].endswith(".delta"):
            items[event["item_id"]]["said"] += event["delta"]
    said = [(item["type"], item.get("name"), item["said"]) for item in items.values()]
    return _form(
        "".join(text for kind, _, text in said if kind == "message"),
        "".join(text for kind, _, text in said if kind == "reasoning"),
        [(name, text) for kind, name, text in said if kind == "function_call"],
    )


def _form(content: str, reasoning: str, calls: list[tuple[Any, str]]) -> Json:
    """Without what is the same by construction, or drawn. No arguments are an empty object."""
    found = [{"id": "", "type": "function", "name": name, "arguments": said or "{}"} for name, said in calls]
    return {"content": content, "reasoning": reasoning, "calls": found, "finish_reason": "", "usage": None}


class Overheard(logging.Handler):
    """Takes the lines that vLLM writes: ``words`` are those of the last error in them."""

    words = ""

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self.words = str(record.exc_info[1])


OVERHEARD = Overheard()


class Answer(NamedTuple):
    """What was said, joined; ``why`` it was refused, or what its parser made a line of."""

    said: Json
    why: str = ""


@dataclass(frozen=True)
class Way:
    """A dialect as the comparison uses it: its name, its request, and how its answers are joined."""

    dialect: Dialect
    field: str
    request: Any
    whole: Any
    events: Any

    def one_shot(self, model: Model, case: Case) -> Answer:
        choice = {"index": 0, "token_ids": case.ids, "finish_reason": case.finish}
        answer = {"request_id": "r", "choices": [choice], "prompt_token_ids": case.prompt}
        door = self.dialect.derendering()
        body = {"generate_response": answer, "prompt_token_ids": case.prompt, self.field: self.request(case.request)}
        OVERHEARD.words = ""
        try:
            said = self.whole(door.derender(model, door.bodies()[0].model_validate(body), unreported))
            return Answer(dict(said), OVERHEARD.words)
        except RequestError as exc:
            return Answer(joined.REFUSED, _cause(exc))

    def streamed(self, model: Model, case: Case, chunking: str) -> Answer:
        """One call for up to a hundred chunks, the parser carried by checkpoints."""
        door = self.dialect.derendering()
        chunks = engine_chunks(case, case.chunkings[chunking])[:-1]
        said: list[Json] = []
        state = None
        fixed = {"stream": True, "prompt_token_ids": case.prompt, self.field: self.request(case.request)}
        try:
            for start in range(0, len(chunks), 100):
                body = {**fixed, "generate_chunks": chunks[start : start + 100], "stream_state": state}
                answer = door.derender_stream(model, door.bodies()[1].model_validate(body), unreported)
                said += answer.get("events") or answer.get("chunks") or ()
                state = answer["stream_state"]
        except RequestError as exc:
            return Answer(joined.REFUSED, _cause(exc))
        return Answer(dict(self.events(said)))


def _cause(exc: BaseException) -> str:
    """The words of the error that began it."""
    while exc.__cause__ is not None:
        exc = exc.__cause__
    return str(exc)


def _of_chat(response: Json) -> Json:
    return _plain(joined.whole(response))


def _of_chat_chunks(chunks: list[Json]) -> Json:
    return _plain(joined.streamed(chunks))


def _plain(answer: Json) -> Json:
    calls = [(call["name"], call["arguments"] or "") for call in answer["calls"]]
    return _form(answer["content"], answer["reasoning"], calls)


CHAT = Way(_BY_NAME["chat"], "chat_request", dict, _of_chat, _of_chat_chunks)
MESSAGES = Way(_BY_NAME["messages"], "messages_request", messages_request, of_message, of_message_events)
RESPONSES = Way(_BY_NAME["responses"], "responses_request", responses_request, of_response, of_response_events)


@dataclass
class Row:
    """What the streams of one parser or pair came to; ``otherwise`` counts reasons, and has an example of each.

    ``repaired`` are the repaired streams that differ from their whole answer, or whose whole answer is not the chat's.
    """

    title: str
    outputs: int = 0
    equal: Counter[str] = field(default_factory=Counter)
    like_chat: Counter[str] = field(default_factory=Counter)
    otherwise: dict[str, Counter[str]] = field(default_factory=dict)
    examples: dict[tuple[str, str], str] = field(default_factory=dict)
    repaired: list[str] = field(default_factory=list)

    def take(self, name: str, example: str, kinds: set[str], chats: set[str], reason: str) -> None:
        if not kinds:
            self.equal[name] += 1
        elif kinds <= chats:
            self.like_chat[name] += 1
        else:
            self.otherwise.setdefault(name, Counter())[reason] += 1
            self.examples.setdefault((name, reason), f"{example}: {', '.join(sorted(kinds))}")

    @property
    def unexplained(self) -> list[str]:
        """Examples of streams that differ otherwise, and nobody knows why."""
        return [f"{self.title}, {name}: {text}" for (name, reason), text in self.examples.items() if not reason]


WAYS = (CHAT, MESSAGES, RESPONSES)


def compare(model: Model, repaired: Model, title: str, found: Iterator[Case]) -> Row:
    """Run the cases of one parser or pair, as vLLM reads and ``repaired``."""
    row = Row(title)
    for case in found:
        if not case.request.keys() <= KNOWN:
            continue
        row.outputs += 1
        whole = {way.dialect.name: way.one_shot(model, case) for way in WAYS}
        for chunking in CHUNKINGS:
            chat = CHAT.streamed(model, case, chunking)
            chats = kinds_of(whole["chat"].said, chat.said)
            for way in (MESSAGES, RESPONSES):
                stream = way.streamed(model, case, chunking)
                kinds = kinds_of(whole[way.dialect.name].said, stream.said)
                why = whole[way.dialect.name].why or stream.why
                reason = _reason(way, kinds - chats, why, (whole["chat"].said, chat.said))
                row.take(way.dialect.name, f"{case.name}, {chunking}", kinds, chats, reason)
        row.repaired += _wrong_repaired(repaired, case)
    return row


def _wrong_repaired(model: Model, case: Case) -> list[str]:
    """Where the repaired answers to one output are not one answer: streamed and whole, in every dialect.

    gpt-oss models' Responses are by messages, which a chat does not tell apart: they are held against themselves.
    """
    wrong = []
    chat = CHAT.one_shot(model, case).said
    for way in WAYS:
        whole = way.one_shot(model, case)
        right = whole.said if way is RESPONSES and model.config.is_harmony else chat
        answers = {"whole answer": whole}
        answers |= {chunking: way.streamed(model, case, chunking) for chunking in CHUNKINGS}
        for name, answer in answers.items():
            if kinds := kinds_of(right, answer.said):
                wrong.append(
                    f"{way.dialect.name}, {case.name}, {name}: {', '.join(sorted(kinds))} {answer.why}".strip()
                )
    return wrong


def kinds_of(whole: Json, stream: Json) -> set[str]:
    """How two answers differ; arguments that are no JSON are just that, however far they go."""
    kinds = set(joined.kinds(whole, stream)) - _HARMLESS
    return {"arguments: not JSON when streamed" if kind == "arguments: cut" else kind for kind in kinds}


def _reason(way: Way, kinds: set[str], why: str, chats: tuple[Json, Json]) -> str:
    """By which of ``REASONS`` a stream differs in ``kinds``, and the chat's does not; "" where none is known."""
    if "object has no attribute 'function'" in why:
        return "tools"
    if "ResponseFunctionToolCallItem\nname\n" in why:
        return "name"
    arguments = [call["arguments"] for chat in chats for call in chat.get("calls", ())]
    broken = not all(map(is_object, arguments))
    if way is MESSAGES and broken and all(kind.startswith("arguments: ") for kind in kinds):
        return "input"
    return ""


def page(rows: list[Row]) -> str:
    """The page of a run."""
    names = ("messages", "responses")
    lines, reasons = [], []
    for row in rows:
        cells = [
            str(count)
            for name in names
            for count in (row.equal[name], row.like_chat[name], sum(row.otherwise.get(name, Counter()).values()))
        ]
        lines.append(f"| {row.title} | {row.outputs} | {' | '.join(cells)} |")
        for (name, reason), example in row.examples.items():
            count = row.otherwise[name][reason]
            reasons.append(f"| {row.title} | {name} | {reason or 'not known'} | {count} | {example} |")
    streams = sum(row.outputs for row in rows) * len(CHUNKINGS)
    sums = [
        f"{name.capitalize()}: {sum(row.equal[name] for row in rows):,} equal, "
        f"{sum(row.like_chat[name] for row in rows):,} like chat, "
        f"{sum(count for row in rows for count in row.otherwise.get(name, Counter()).values()):,} otherwise."
        for name in names
    ]
    wrong = [f"* {row.title}: {text}" for row in rows for text in row.repaired]
    return _PAGE.format(
        summary=f"{len(rows)} parsers and pairs, {streams:,} streams in each dialect. {' '.join(sums)}",
        rows="\n".join(lines),
        reasons="\n".join(f"* `{name}`: {text}." for name, text in REASONS.items()),
        otherwise="\n".join(reasons),
        repaired=f"{len(WAYS) * streams:,}",
        outputs=f"{sum(row.outputs for row in rows):,}",
        wrong=f"**{len(wrong)} differ**" + (":\n\n" + "\n".join(wrong) if wrong else "."),
    )


_PAGE = """# Messages and Responses: streamed and whole answers

`python -m tests.dialects.table` writes this page. It runs the outputs of [equality.md](../equality.md), of which every parser and
the usual pairs have some, through both dialects' derender: whole, and as events in chunks of one token, of seven, and in one
chunk, which are joined. Compared are text, reasoning, and the names and arguments of calls.

## Repaired

With `--answers repaired`, the relay's default, {outputs} outputs in three chunkings, as chat, Messages and Responses: {repaired} streams,
and the whole answers. All of an output have to be one answer, that of the whole chat (Responses of gpt-oss models, which are by
messages: that of the whole response). {wrong}

## As vLLM reads

"like chat" counts streams that differ from their whole answer in the same way as the chat endpoint's, which is the parser's
doing and the same in vLLM; "otherwise" those that differ in another way.

{summary}

| parser | outputs | Messages: equal | like chat | otherwise | Responses: equal | like chat | otherwise |
|---|---|---|---|---|---|---|---|
{rows}

## Otherwise, and why

All of it is vLLM's:

{reasons}

| parser | dialect | why | streams | for example |
|---|---|---|---|---|
{otherwise}
"""


def run(models: Path, wanted: str = "") -> Iterator[Row]:
    """Rows of all parsers and pairs, or of those with ``wanted`` in their names."""
    with TemporaryDirectory() as scratch:
        deployments = Models(models, Path(scratch))
        for pair, folder in pairs():
            title = " + ".join(filter(None, pair)) or "(no parser)"
            if wanted in title:
                model = deployments.deployment(pair, folder)
                repaired = deployments.deployment(pair, folder, answers="repaired")
                yield compare(model, repaired, title, cases(model, pair, folder))


def main(arguments: list[str] | None = None) -> int:
    """The exit status is 0 when every difference has its reason, and no repaired answer differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.dialects.table", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--only", default="", metavar="NAME", help="parsers with NAME in their names; writes nothing")
    options = parser.parse_args(arguments)
    logger = logging.getLogger(vllm.logger.__name__.partition(".")[0])
    logger.handlers, logger.propagate = [OVERHEARD], False  # vLLM's parsers tell of every output that they cannot read
    rows = []
    for row in run(model_folders(), options.only):
        rows.append(row)
        wrong = [*row.unexplained, *row.repaired]
        print(f"{row.title}: {row.outputs} outputs", *wrong, sep="\n  ", file=sys.stderr, flush=True)
    if not options.check and not options.only:
        PAGE.write_text(page(rows), encoding="utf-8")
    return 1 if any(row.unexplained or row.repaired for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
