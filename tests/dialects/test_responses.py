"""Responses as recorded of vLLM: rendered, refused; relayed whole and as events; derendered in all chunkings.

With pytest-xdist use `--dist loadgroup`, which keeps the cases of a server configuration together.
"""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from tests.dialects import deviations, judging, recorded
from tests.dialects.conftest import Services
from tests.dialects.playing import CHUNK_ID, asked_otherwise, call, choice_failed, chunks_of, usage_of
from tests.dialects.recorded import Case, Json
from tests.golden.application import InProcess
from tests.golden.difference import answer_differences
from tests.relay.replaying import ReplayingEngine

FILES = ("responses", "responses-render", "responses-errors")
PREFIX = "resp_"
CONFIGURATIONS = recorded.by_server(*FILES)
each_server = pytest.mark.parametrize(
    "key", [pytest.param(key, marks=pytest.mark.xdist_group(f"responses-{i}")) for i, key in enumerate(CONFIGURATIONS)]
)
sizes = pytest.mark.parametrize("size", [1, 3, 7, 0], ids=lambda size: f"{size or 'all'}-tokens")


def judge(case: Case, got: Json) -> str | None:
    return judging.judge(case, got, answer_differences(case["response"], got), deviations.RESPONSES)


@each_server
def test_every_recorded_case(key: str, services: Services, engine: tuple[ReplayingEngine, str]) -> None:
    application = services.get(key)
    wrong = []
    for case in CONFIGURATIONS[key]:
        engine[0].chunks = recorded.engine_chunks(case) if case["engine"] else []
        engine[0].asked = None
        wrong.append(judge(case, without_parse_context(case, call(application, case))))
        if case["engine"]:
            wrong.append(asked_otherwise(case, engine[0].asked))
    found = "\n".join(filter(None, wrong))
    assert not found, found


def without_parse_context(case: Case, answer: Json) -> Json:
    """A rendered request as vLLM's render server writes it: with no context for an engine that parses."""
    body = answer.get("body")
    if not case["id"].endswith(".render") or answer["status"] != 200:
        return answer
    context = body["parse_context"]
    request = case["request"]
    tools = [tool for tool in request.get("tools") or () if tool["type"] == "function"]
    offered = {tool["function"]["name"] for tool in context["tools"] or ()}
    assert {tool["name"] for tool in tools} <= offered, case["id"]
    assert context["include_reasoning"] == request.get("include_reasoning", True)
    return {**answer, "body": {**body, "parse_context": None}}


def test_every_deviation_covers_a_case() -> None:
    ids = [case["id"] for name in FILES for case in recorded.cases(name)]
    assert [one.pattern for one in deviations.RESPONSES if not any(map(one.covers, ids))] == []


# Derender takes no stop strings in a stream, as the chat endpoint: text that is out cannot be taken back.
def _derendered(case: Case) -> bool:
    return len(case["engine"]) == 1 and not (case["id"].endswith(".sse") and case["request"].get("stop"))


def streamed(key: str) -> list[Case]:
    return [case for case in CONFIGURATIONS[key] if "events" in case["response"] and _derendered(case)]


def test_streams_are_compared() -> None:
    assert sum(len(streamed(key)) for key in CONFIGURATIONS) > 110


@each_server
@sizes
def test_derendered_streams_are_the_relayed_ones(
    key: str, size: int, services: Services, engine: tuple[ReplayingEngine, str]
) -> None:
    """In chunks of any size, and in chunks of one token the recorded ones. Parsers read larger chunks otherwise."""
    application = services.get(key)
    for case in streamed(key):
        if any("logprobs" in chunk["choices"][0] for chunk in recorded.engine_chunks(case) if chunk["choices"]):
            continue  # they are compared below, in the chunks in which they were recorded
        usage = {"request_id": "engine", "choices": [], "usage": usage_of(case)}
        engine[0].chunks = [*chunks_of(case, size, PREFIX), usage]
        relayed = call(application, case)
        derendered = joined(derender_in_chunks(application, case, chunks_of(case, size, PREFIX)))
        if relayed["status"] != 200:
            assert choice_failed(case)
            assert derendered[-1]["type"] == "error"
            continue
        expected = joined([event["data"] for event in relayed["events"]])
        assert derendered == expected, case["id"]
        if size == 1 and not deviates(case):
            assert derendered == joined([event["data"] for event in case["response"]["events"]]), case["id"]


@each_server
def test_derendered_log_probabilities(key: str, services: Services) -> None:
    application = services.get(key)
    for case in streamed(key):
        chunks = [chunk for chunk in recorded.engine_chunks(case) if chunk["choices"]]
        if "logprobs" not in chunks[0]["choices"][0]:
            continue
        named = [{**chunk, "request_id": PREFIX + CHUNK_ID} for chunk in chunks]
        derendered = joined(derender_in_chunks(application, case, named))
        assert derendered == joined([event["data"] for event in case["response"]["events"]]), case["id"]


def deviates(case: Case) -> bool:
    return any(one.covers(case["id"]) for one in deviations.RESPONSES)


def joined(events: list[Json]) -> list[Json]:
    """Events with neighbouring deltas of one item as one, numbered anew, and their ids, too, without the response's."""
    found: list[Json] = []
    for event in events:
        last, data = found[-1] if found else {}, copy.deepcopy(event)
        if (
            last.get("type") == data.get("type")
            and data["type"].endswith(".delta")
            and last["item_id"] == data["item_id"]
        ):
            last["delta"] += data["delta"]
            last["logprobs"] = [*last.get("logprobs", ()), *data.get("logprobs", ())]
        else:
            found.append(data)
    for number, data in enumerate(found):
        data["sequence_number"] = number
        data.get("response", {}).pop("id", None)
    return list(_named_anew(found, {}))


def _named_anew(value: Json, names: dict[str, str]) -> Json:
    """A value whose ids, random or already named, are named in the order in which they come."""
    if isinstance(value, dict):
        return {name: _named(one, name, names) for name, one in value.items() if name not in ("created", "created_at")}
    return [_named_anew(one, names) for one in value] if isinstance(value, list) else value


def _named(value: Json, key: str, names: dict[str, str]) -> Json:
    if not isinstance(value, str) or key not in ("id", "item_id", "call_id"):
        return _named_anew(value, names)
    prefix, _, rest = value.rpartition("-" if value.startswith("chatcmpl") else "_")
    return f"{prefix} {names.setdefault(rest, str(len(names) + 1))}"


def derender_in_chunks(application: InProcess, case: Case, chunks: list[Json], **fields: Any) -> list[Json]:
    """The events of a recorded output that comes in these chunks, their numbers and ids as they came."""
    body = {
        "stream": True,
        "responses_request": case["request"],
        "prompt_token_ids": case["engine"][0]["prompt_token_ids"],
        "stream_state": None,
        **fields,
    }
    headers = {**recorded.JSON_HEADERS, "x-api-key": "secret-1"}
    chunks = [*chunks[:-1], {**chunks[-1], "usage": usage_of(case)}]
    events: list[Json] = []
    for chunk in chunks:
        raw = json.dumps({**body, "generate_chunk": chunk}).encode()
        status, answer = application.call("POST", "/v1/responses/derender", raw, headers)
        assert status == 200, (case["id"], answer)
        assert set(answer) == {"events", "stream_state"}
        events += answer["events"]
        body["stream_state"] = answer["stream_state"]
        if fields.get("carry_context"):
            body.pop("responses_request", None)
            body.pop("prompt_token_ids", None)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    return events


@each_server
def test_a_stream_that_carries_its_request_says_the_same(key: str, services: Services) -> None:
    application = services.get(key)
    for case in streamed(key)[::3]:
        chunks = chunks_of(case, 3, PREFIX)
        sent = joined(derender_in_chunks(application, case, chunks))
        carried = joined(derender_in_chunks(application, case, chunks, carry_context=True))
        assert carried == sent, case["id"]


@each_server
def test_a_client_that_keeps_what_was_said(key: str, services: Services) -> None:
    """With `carry_output` off the deltas are the same, and the last events leave out what these said."""
    application = services.get(key)
    for case in streamed(key)[::3]:
        chunks = chunks_of(case, 3, PREFIX)
        whole = joined(derender_in_chunks(application, case, chunks))
        spared = joined(derender_in_chunks(application, case, chunks, carry_output=False))
        assert [event["type"] for event in spared] == [event["type"] for event in whole], case["id"]
        for one, other in zip(spared, whole, strict=True):
            if one["type"].endswith(".delta"):
                assert one == other
            elif one["type"].endswith((".completed", ".incomplete")) and "response" in one:
                assert one["response"]["output"] == []
                assert one["response"]["usage"] == other["response"]["usage"] or counts_ids(key), case["id"]
            elif one["type"].endswith(".done"):
                assert not any(one.get(name) for name in ("text", "arguments", "input")), one


def counts_ids(key: str) -> bool:
    """Whether the parser counts reasoning among all ids, which are not carried then."""
    return json.loads(key).get("reasoning_parser") == "deepseek_v3"


@each_server
def test_derendered_responses_are_the_recorded_ones(key: str, services: Services) -> None:
    application = services.get(key)
    wrong = []
    for case in filter(_derendered, CONFIGURATIONS[key]):
        if not case["id"].endswith(".one"):
            continue
        (engine_call,) = case["engine"]
        last = recorded.engine_chunks(case)[-2]["choices"][0]
        answer = {
            "request_id": case["request"].get("request_id", PREFIX + CHUNK_ID),
            "choices": [last],
            "usage": recorded.engine_chunks(case)[-1]["usage"],
        }
        body = {
            "responses_request": case["request"],
            "prompt_token_ids": engine_call["prompt_token_ids"],
            "generate_response": answer,
        }
        headers = {**recorded.JSON_HEADERS, "x-api-key": "secret-1"}
        status, got = application.call("POST", "/v1/responses/derender", json.dumps(body).encode(), headers)
        if choice_failed(case):
            said = got.get("error", {}).get("message")
            if (status, said) != (502, "the engine failed while it generated"):
                wrong.append(f"{case['id']}: {got}")
            continue
        names = recorded.Names()
        if "request_id" not in case["request"]:
            names.normal({"id": PREFIX + CHUNK_ID})  # the engine's id stands for the first that is drawn
        want = case["response"]["body"]
        found = {"status": status, "body": {**names.normal(got), **({"id": want["id"]} if "id" in want else {})}}
        wrong.append(judge(case, found))
    text = "\n".join(filter(None, wrong))
    assert not text, text
