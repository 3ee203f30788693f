"""The recorded cases, and answers in the form in which they were recorded. It knows nothing of the service."""

from __future__ import annotations

import copy
import gzip
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

Json = Any
Case = dict[str, Json]
DATA = Path(__file__).parent / "data"
JSON_HEADERS = {"content-type": "application/json"}
_ID_KEYS = {"id", "item_id", "call_id", "tool_use_id", "signature", "request_id", "response_id", "previous_response_id"}
_LEFT_OUT = {"created", "created_at"}
_RANDOM = re.compile(r"^((?:[a-z]+[-_])*)([0-9a-f]{16,64}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})((?:[-_]\d+)?)$")
_QUOTED = re.compile(r"\bresp_[0-9a-f]{16,64}\b")


@cache
def cases(name: str) -> tuple[Case, ...]:
    """The cases of one file, by its name without suffixes."""
    text = gzip.decompress((DATA / f"{name}.jsonl.gz").read_bytes()).decode("utf-8")
    return tuple(json.loads(line) for line in text.splitlines() if line)


def by_server(*names: str) -> dict[str, list[Case]]:
    """The cases of some files by their server configuration, as JSON."""
    found: dict[str, list[Case]] = {}
    for name in names:
        for case in cases(name):
            found.setdefault(json.dumps(case["server"], sort_keys=True), []).append(case)
    return found


def body_of(case: Case) -> bytes:
    """The body of a request as it was sent."""
    if "request_raw" in case:
        return str(case["request_raw"]).encode()
    return json.dumps(case["request"]).encode() if "request" in case else b""


def headers_of(case: Case) -> dict[str, str]:
    """The headers of a request; null leaves one out."""
    headers = {**JSON_HEADERS, **case.get("headers", {})}
    return {name: value for name, value in headers.items() if value is not None}


class Names:
    """Random ids become ``$1``, ``$2``, ... in the order in which one case shows them first."""

    def __init__(self) -> None:
        self._names: dict[str, int] = {}

    def normal(self, value: Json, key: str | None = None) -> Json:
        """A value as it was recorded."""
        if isinstance(value, dict):
            return {name: self.normal(one, name) for name, one in value.items() if name not in _LEFT_OUT}
        if isinstance(value, list):
            return [self.normal(one, key) for one in value]
        if isinstance(value, str) and key in _ID_KEYS:
            return self._named(value)
        if isinstance(value, str) and key == "message":  # error texts quote ids
            return _QUOTED.sub(lambda match: self._named(match[0]), value)
        return value

    def _named(self, value: str) -> str:
        match = _RANDOM.match(value)
        if match is None:
            return value
        return f"{match[1]}${self._names.setdefault(match[2], len(self._names) + 1)}{match[3]}"


def answer_of(status: int, body: Json) -> Json:
    """An answer as it was recorded; ``body`` is decoded JSON, or the text of events."""
    if isinstance(body, str) and body.startswith(("event: ", "data: ")):
        return {"status": status, "events": Names().normal(list(events_of(body)))}
    return {"status": status, "body": Names().normal(body)}


def events_of(text: str) -> Iterator[Json]:
    """The events of a stream, each ``{"event", "data"}``; anything else than that and a blank line is ``{"raw"}``."""
    for block in filter(None, text.split("\n\n")):
        lines = block.split("\n")
        if len(lines) == 2 and lines[0].startswith("event: ") and lines[1].startswith("data: "):
            yield {"event": lines[0].removeprefix("event: "), "data": json.loads(lines[1].removeprefix("data: "))}
        else:
            yield {"raw": block}


def engine_chunks(case: Case) -> list[Json]:
    """What the engine of a case sends on the wire of ``/inference/v1/generate``, its usage last."""
    (call,) = case["engine"]
    chunks = [wire_chunk(part) for part in call["chunks"]]
    usage = {"prompt_tokens": len(call["prompt_token_ids"]), "completion_tokens": len(call["output_token_ids"])}
    if case["server"].get("enable_prompt_tokens_details"):
        usage["prompt_tokens_details"] = {
            "cached_tokens": call["num_cached_tokens"],
            "created_cache_tokens": call["num_cache_creation_tokens"],
        }
    return [*chunks, {"request_id": "engine", "choices": [], "usage": usage}]


def wire_chunk(part: Json) -> Json:
    """A recorded output as a chunk on the wire."""
    choice = {"index": 0, "token_ids": part["token_ids"]}
    choice |= {name: part[name] for name in ("finish_reason", "stop_reason") if name in part}
    if "logprobs" in part:
        choice["logprobs"] = {"content": [_position(position) for position in part["logprobs"]]}
    return {"request_id": "engine", "choices": [choice]}


def _position(position: Json) -> Json:
    # The sampled token is the first of the candidates, too.
    entries = [{"token_id": token_id, "logprob": logprob, "rank": rank} for token_id, logprob, rank in position]
    return {**entries[0], "top_logprobs": entries}


def joined(events: list[Json]) -> list[Json]:
    """The data of a Messages stream's events, with neighbouring deltas of one block as one."""
    found: list[Json] = []
    for event in events:
        last, data = found[-1] if found else {}, copy.deepcopy(event)
        if _continues(last, data):
            for name, text in data["delta"].items():
                last["delta"][name] = text if name == "type" else last["delta"][name] + text
        else:
            found.append(data)
    return found


def _continues(last: Json, data: Json) -> bool:
    return (
        last.get("type") == data.get("type") == "content_block_delta"
        and last["index"] == data["index"]
        and last["delta"]["type"] == data["delta"]["type"]
    )
