"""``docs/results/dialects.md``: every parser and the usual pairs in Messages and Responses, joined streams against one-shot answers.

``python -m tests.dialects.table`` runs the outputs of ``tests/equality`` through both dialects and through chat, and
writes the page. A stream that differs from its one-shot answer as the chat's stream does from the chat's is vLLM's
parser's doing (docs/equality.md); one that differs otherwise is the dialect's.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

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
_HEAD = """# Messages and Responses: streamed and one-shot answers

`python -m tests.dialects.table` writes this page. It runs the outputs of [equality.md](../equality.md), of which every parser and
the usual pairs have some, through both dialects' derender: one-shot, and as events in chunks of one token, of seven, and in one
chunk, which are joined. Compared are text, reasoning, and the names and arguments of calls.

"like chat" counts streams that differ from their one-shot answer in the same way as the chat endpoint's, which is the parser's
doing and the same in vLLM; "otherwise" those that differ in another way.

{summary}

| parser | outputs | Messages: equal | like chat | otherwise | Responses: equal | like chat | otherwise |
|---|---|---|---|---|---|---|---|
{rows}

{kinds}
"""


def messages_request(chat: Json) -> Json:
    """A chat request in the words of Messages."""
    tools = [tool["function"] for tool in chat.get("tools") or ()]
    body: Json = {"model": "m", "max_tokens": 1000, "messages": chat["messages"]}
    if tools:
        body["tools"] = [{"name": tool["name"], "input_schema": tool["parameters"]} for tool in tools]
    choice = chat.get("tool_choice")
    if choice is not None:
        words = {"auto": {"type": "auto"}, "none": {"type": "none"}, "required": {"type": "any"}}
        named = not isinstance(choice, str)
        body["tool_choice"] = {"type": "tool", "name": choice["function"]["name"]} if named else words[choice]
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
        [(name, text or "{}") for kind, name, text in said if kind == "tool_use"],
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
    """Without what is the same by construction, or drawn."""
    found = [{"id": "", "type": "function", "name": name, "arguments": arguments} for name, arguments in calls]
    return {"content": content, "reasoning": reasoning, "calls": found, "finish_reason": "", "usage": None}


@dataclass(frozen=True)
class Way:
    """A dialect as the comparison uses it: its name, its request, and how its answers are joined."""

    dialect: Dialect
    field: str
    request: Any
    whole: Any
    events: Any

    def one_shot(self, model: Model, case: Case) -> Json:
        choice = {"index": 0, "token_ids": case.ids, "finish_reason": case.finish}
        answer = {"request_id": "r", "choices": [choice], "prompt_token_ids": case.prompt}
        door = self.dialect.derendering()
        body = {"generate_response": answer, "prompt_token_ids": case.prompt, self.field: self.request(case.request)}
        try:
            return dict(self.whole(door.derender(model, door.bodies()[0].model_validate(body), unreported)))
        except RequestError:
            return joined.REFUSED

    def streamed(self, model: Model, case: Case, chunking: str) -> Json:
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
        except RequestError:
            return joined.REFUSED
        return dict(self.events(said))


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
# Inputs are read as objects, and their spelling is lost.
_HARMLESS = frozenset({"arguments: spelling", "content: white space", "reasoning: white space"})


@dataclass
class Row:
    """What the streams of one parser or pair came to; ``otherwise`` has an example of each."""

    title: str
    outputs: int = 0
    equal: Counter[str] = field(default_factory=Counter)
    like_chat: Counter[str] = field(default_factory=Counter)
    otherwise: dict[str, list[str]] = field(default_factory=dict)

    def take(self, way: Way, case: Case, chunking: str, kinds: set[str], chats: set[str]) -> None:
        name = way.dialect.name
        if not kinds:
            self.equal[name] += 1
        elif kinds <= chats:
            self.like_chat[name] += 1
        else:
            self.otherwise.setdefault(name, []).append(f"{case.name}, {chunking}: {', '.join(sorted(kinds))}")


def compare(model: Model, title: str, found: Iterator[Case]) -> Row:
    """Run the cases of one parser or pair."""
    row = Row(title)
    for case in found:
        if not case.request.keys() <= KNOWN:
            continue
        row.outputs += 1
        whole = {way.dialect.name: way.one_shot(model, case) for way in (CHAT, MESSAGES, RESPONSES)}
        for chunking in CHUNKINGS:
            chats = kinds_of(whole["chat"], CHAT.streamed(model, case, chunking))
            for way in (MESSAGES, RESPONSES):
                kinds = kinds_of(whole[way.dialect.name], way.streamed(model, case, chunking))
                row.take(way, case, chunking, kinds, chats)
    return row


def kinds_of(whole: Json, stream: Json) -> set[str]:
    """What differs between an answer and another, or its joined stream, but for what is harmless."""
    return set(joined.kinds(whole, stream)) - _HARMLESS


def page(rows: list[Row]) -> str:
    """The page of a run."""
    names = ("messages", "responses")
    lines, examples = [], []
    for row in rows:
        cells = [
            str(count)
            for name in names
            for count in (row.equal[name], row.like_chat[name], len(row.otherwise.get(name, ())))
        ]
        lines.append(f"| {row.title} | {row.outputs} | {' | '.join(cells)} |")
        for name in names:
            examples += [f"* {row.title}, {name}: {example}" for example in row.otherwise.get(name, ())[:2]]
    streams = sum(row.outputs for row in rows) * len(CHUNKINGS)
    sums = [
        f"{name.capitalize()}: {sum(row.equal[name] for row in rows):,} equal, "
        f"{sum(row.like_chat[name] for row in rows):,} like chat, "
        f"{sum(len(row.otherwise.get(name, ())) for row in rows):,} otherwise."
        for name in names
    ]
    summary = f"{len(rows)} parsers and pairs, {streams:,} streams in each dialect. {' '.join(sums)}"
    told = "Otherwise, up to two of each parser:\n\n" + "\n".join(examples) if examples else "None differs otherwise."
    return _HEAD.format(summary=summary, rows="\n".join(lines), kinds=told)


def run(models: Path, wanted: str = "") -> list[Row]:
    """Rows of all parsers and pairs, or of those with ``wanted`` in their names."""
    rows = []
    with TemporaryDirectory() as scratch:
        deployments = Models(models, Path(scratch))
        for pair, folder in pairs():
            title = " + ".join(filter(None, pair)) or "(no parser)"
            if wanted not in title:
                continue
            model = deployments.deployment(pair, folder)
            rows.append(compare(model, title, cases(model, pair, folder)))
            print(f"{title}: {rows[-1].outputs} outputs", file=sys.stderr, flush=True)
    return rows


if __name__ == "__main__":
    PAGE.write_text(page(run(model_folders())), encoding="utf-8")
