"""Messages as recorded of vLLM: rendered, counted, refused; relayed whole and as events; derendered in all chunkings.

With pytest-xdist use `--dist loadgroup`, which keeps the cases of a server configuration together.
"""

from __future__ import annotations

import json

import pytest

from tests.dialects import deviations, judging, recorded
from tests.dialects.conftest import Services
from tests.dialects.playing import asked_otherwise, call, choice_failed, chunks_of, usage_of
from tests.dialects.recorded import Case, Json
from tests.golden.application import InProcess
from tests.golden.difference import differences
from tests.relay.replaying import ReplayingEngine

FILES = ("messages", "messages-render", "messages-count", "messages-errors")
PREFIX = "chatcmpl-"
CONFIGURATIONS = recorded.by_server(*FILES)
each_server = pytest.mark.parametrize(
    "key", [pytest.param(key, marks=pytest.mark.xdist_group(f"messages-{i}")) for i, key in enumerate(CONFIGURATIONS)]
)


def judge(case: Case, got: Json) -> str | None:
    return judging.judge(case, got, differences(case["response"], got), deviations.MESSAGES)


@each_server
def test_every_recorded_case(key: str, services: Services, engine: tuple[ReplayingEngine, str]) -> None:
    application = services.get(key)
    wrong = []
    for case in CONFIGURATIONS[key]:
        engine[0].chunks = recorded.engine_chunks(case) if case["engine"] else []
        engine[0].asked = None
        wrong.append(judge(case, call(application, case)))
        if case["engine"]:
            wrong.append(asked_otherwise(case, engine[0].asked))
    found = "\n".join(filter(None, wrong))
    assert not found, found


def test_every_deviation_covers_a_case() -> None:
    ids = [case["id"] for name in FILES for case in recorded.cases(name)]
    assert [one.pattern for one in deviations.MESSAGES if not any(map(one.covers, ids))] == []


# Derender takes no stop sequences in a stream, as the chat endpoint: text that is out cannot be taken back.
def _derendered(case: Case) -> bool:
    return len(case["engine"]) == 1 and not (case["id"].endswith(".sse") and case["request"].get("stop_sequences"))


sizes = pytest.mark.parametrize("size", [1, 3, 7, 0], ids=lambda size: f"{size or 'all'}-tokens")


def streamed(key: str) -> list[Case]:
    return [case for case in CONFIGURATIONS[key] if "events" in case["response"] and _derendered(case)]


def test_streams_are_compared() -> None:
    assert sum(len(streamed(key)) for key in CONFIGURATIONS) > 90


@each_server
@sizes
def test_derendered_streams_are_the_relayed_ones(
    key: str, size: int, services: Services, engine: tuple[ReplayingEngine, str]
) -> None:
    """In chunks of any size, and in chunks of one token the recorded ones. Parsers read larger chunks otherwise."""
    application = services.get(key)
    for case in streamed(key):
        engine[0].chunks = [
            *chunks_of(case, size, PREFIX),
            {"request_id": "engine", "choices": [], "usage": usage_of(case)},
        ]
        relayed = call(application, case)
        derendered = recorded.joined(recorded.Names().normal(derender_in_chunks(application, case, size)))
        if relayed["status"] != 200:
            assert choice_failed(case)
            assert derendered[-1]["type"] == "error"
            continue
        assert _comparable(derendered) == _comparable(joined_data(relayed["events"])), case["id"]
        if size == 1:
            assert _comparable(derendered) == _comparable(joined_data(case["response"]["events"])), case["id"]


@each_server
@sizes
def test_a_parser_that_reads_token_by_token_says_the_same_for_all_sizes(
    key: str, size: int, services: Services
) -> None:
    application = services.get(json.dumps({**json.loads(key), "parser_step": "token"}, sort_keys=True))
    for case in streamed(key):
        # What a failed chunk holds is not shown; and one chunk with a call and text has no order of the two.
        if choice_failed(case) or (size == 0 and case["id"] == "messages.gpt-oss.text.text-after-call.sse"):
            continue
        derendered = recorded.joined(recorded.Names().normal(derender_in_chunks(application, case, size)))
        assert _comparable(derendered) == _comparable(joined_data(case["response"]["events"])), case["id"]


def joined_data(events: list[Json]) -> list[Json]:
    return recorded.joined([event["data"] for event in events])


def _comparable(events: list[Json]) -> list[Json]:
    """Events without the words of an error, the message's id, which a header may give, and what a signature is."""
    found = []
    for event in events:
        if event["type"] == "error":
            event = {**event, "error": {"type": event["error"]["type"]}}
        elif event["type"] == "message_start":
            event = {**event, "message": {**event["message"], "id": "the message's"}}
        elif "signature" in event.get("delta", {}):
            event = {**event, "delta": {"type": "signature_delta"}}
        elif "id" in event.get("content_block", {}):
            event = {**event, "content_block": {**event["content_block"], "id": "the call's"}}
        found.append(event)
    return found


def derender_in_chunks(application: InProcess, case: Case, size: int) -> list[Json]:
    """The events of a recorded output that comes in chunks of ``size`` tokens (0: in one)."""
    body = {
        "stream": True,
        "messages_request": case["request"],
        "prompt_token_ids": case["engine"][0]["prompt_token_ids"],
        "stream_state": None,
    }
    headers = {**recorded.JSON_HEADERS, "x-api-key": "secret-1"}
    chunks = chunks_of(case, size, PREFIX)
    chunks[-1]["usage"] = usage_of(case)
    events: list[Json] = []
    for chunk in chunks:
        raw = json.dumps({**body, "generate_chunk": chunk}).encode()
        status, answer = application.call("POST", "/v1/messages/derender", raw, headers)
        assert status == 200, (case["id"], answer)
        assert set(answer) == {"events", "stream_state"}
        events += answer["events"]
        body["stream_state"] = answer["stream_state"]
    return events


@each_server
def test_derendered_messages_are_the_recorded_ones(key: str, services: Services) -> None:
    application = services.get(key)
    wrong = []
    for case in filter(_derendered, CONFIGURATIONS[key]):
        if not case["id"].endswith(".one"):
            continue
        (engine_call,) = case["engine"]
        ids = engine_call["output_token_ids"]
        last = engine_call["chunks"][-1]
        choice = {"index": 0, "token_ids": ids, **{k: last[k] for k in ("finish_reason", "stop_reason") if k in last}}
        answer = {"request_id": case["response"].get("body", {}).get("id"), "choices": [choice]}
        body = {
            "messages_request": case["request"],
            "prompt_token_ids": engine_call["prompt_token_ids"],
            "generate_response": {**answer, "usage": recorded.engine_chunks(case)[-1]["usage"]},
        }
        headers = {**recorded.JSON_HEADERS, "x-api-key": "secret-1"}
        status, got = application.call("POST", "/v1/messages/derender", json.dumps(body).encode(), headers)
        wrong.append(_judge_derendered(case, status, got))
    found = "\n".join(filter(None, wrong))
    assert not found, found


def _judge_derendered(case: Case, status: int, got: Json) -> str | None:
    if choice_failed(case):
        said = got.get("error", {}).get("message")
        return None if status == 502 and said == "the engine failed while it generated" else f"{case['id']}: {got}"
    names = recorded.Names()
    want = case["response"]["body"]
    if want.get("id") == "chatcmpl-$1":
        names.normal({"id": "chatcmpl-" + "1" * 32})  # the engine's id stands for the first that is drawn
    answer = {"status": status, "body": {**names.normal(got), **({"id": want["id"]} if "id" in want else {})}}
    for name in ("kv_transfer_params", "ec_transfer_params"):
        answer["body"].pop(name, None)
    return judge(case, answer)
