"""The harness itself: what it must forgive, what it must not, and that it would notice a wrong service."""

import copy
import json
from itertools import pairwise
from typing import Any

import pytest
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from tests.golden import corpus
from tests.golden.application import InProcess
from tests.golden.deviations import Deviation, answers_as_recorded_except, answers_error
from tests.golden.difference import ABSENT, Difference, answer_differences, differences
from tests.golden.normal_form import IdNames, state_summary
from tests.golden.replay import run_case
from tests.golden.verdict import comparable, expected, judge

CASES = corpus.load()


def case(case_id: str) -> corpus.Case:
    return copy.deepcopy(next(one for one in CASES if one["id"] == case_id))


def first(**wanted: Any) -> corpus.Case:
    """The first case that has a stream or not, and a parser or not."""
    return copy.deepcopy(
        next(
            one
            for one in CASES
            if ("stream" in one) == wanted["stream"] and corpus.through_parser(one) == wanted.get("parser", False)
        )
    )


def test_the_corpus_is_complete() -> None:
    assert len(CASES) == 1567
    assert len({one["id"] for one in CASES}) == 1567
    assert sum(one["core"] for one in CASES) == 457
    assert sum(len(one["stream"]["responses"]) if "stream" in one else 1 for one in CASES) == 16090
    assert len(corpus.engine_recordings()) == 18


def test_cases_of_one_server_are_side_by_side() -> None:
    keys = [corpus.server_key(one["server"]) for one in corpus.by_server(CASES)]
    changes = sum(a != b for a, b in pairwise(keys))
    assert changes + 1 == len(set(keys))


def test_select_combines_filters() -> None:
    chosen = corpus.select(CASES, groups=["parser"], ids=["parser.hermes*"], server_filters=["hermes", "qwen3"])
    assert chosen
    assert {one["group"] for one in chosen} == {"parser"}
    assert all(one["server"]["tool_call_parser"] == "hermes" for one in chosen)
    assert not corpus.select(CASES, groups=["parser"], server_filters=["no-such-parser"])


@pytest.mark.parametrize(
    ("want", "got", "paths"),
    [
        ({"a": None}, {}, [".a"]),
        ({}, {"a": None}, [".a"]),
        ({"a": 1}, {"a": 1.0}, []),
        ({"a": 1}, {"a": True}, [".a"]),
        ({"a": 0}, {"a": False}, [".a"]),
        ({"a": [1, 2]}, {"a": [1]}, [".a.length"]),
        ({"a": [{"b": "x"}]}, {"a": [{"b": "y"}]}, [".a[0].b"]),
        ({"a": -11.5}, {"a": -11.5 + 1e-10}, []),
        ({"a": -11.5}, {"a": -11.5001}, [".a"]),
        ({"a": "1"}, {"a": 1}, [".a"]),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, []),
    ],
)
def test_differences(want: corpus.Json, got: corpus.Json, paths: list[str]) -> None:
    assert [d.path for d in differences(want, got)] == paths


def schema_error(message: Any = "1 validation error:\n  {'type': 'missing'}", **fields: Any) -> corpus.Json:
    error = {"message": message, "type": "Bad Request", "param": "body.token_ids", "code": 400, **fields}
    return {"status": 400, "body": {"error": error}}


@pytest.mark.parametrize(
    ("got", "paths"),
    [
        (schema_error(), []),
        (schema_error("2 validation errors:\n other words", param=None), []),
        (schema_error(""), [".body.error.message"]),
        (schema_error(message=None), [".body.error.message"]),
        (schema_error(param=3), [".body.error.param"]),
        (schema_error(type="BadRequestError"), [".body.error.type"]),
        (schema_error(code=422), [".body.error.code"]),
        (schema_error(extra=1), [".body.error.extra"]),
        ({**schema_error(), "status": 422}, [".status"]),
        ({"status": 400, "body": {"detail": "no"}}, [".body.error", ".body.detail"]),
        ({"status": 400, "body": "no"}, [".body"]),
    ],
)
def test_schema_errors_are_compared_by_their_shape(got: corpus.Json, paths: list[str]) -> None:
    assert [d.path for d in answer_differences(schema_error(), got)] == paths


def test_other_errors_are_compared_by_their_words() -> None:
    want, got = schema_error("the model is not here"), schema_error("the model is not there")
    assert [d.path for d in answer_differences(want, got)] == [".body.error.message"]


def test_a_stream_that_ends_early_is_different() -> None:
    assert answer_differences([1, 2, 3], [1, 2]) == [Difference(".length", 3, 2)]


def test_random_ids_are_named_in_order_and_keep_their_relations() -> None:
    names = IdNames()
    first_id, second_id = "0123456789abcdef" * 2, "f" * 32
    assert names.normalise({"id": f"chatcmpl-{first_id}", "created": 5}) == {"id": "chatcmpl-$1"}
    call = {"id": f"chatcmpl-tool-{second_id}", "function": {}}
    assert names.normalise([call, {"request_id": first_id}]) == [
        {"id": "chatcmpl-tool-$2", "function": {}},
        {"request_id": "$1"},
    ]
    # A Mistral id is nine characters, which other ids may be as well: only a call's is one.
    assert names.normalise({"id": "abcdefgh9"}) == {"id": "abcdefgh9"}
    assert names.normalise({"id": "abcdefgh9", "function": {}}) == {"id": "mistral-$3", "function": {}}
    assert names.normalise({"id": "functions.f:0", "function": {}}) == {"id": "functions.f:0", "function": {}}
    assert names.normalise({"content": f"chatcmpl-{first_id}"}) == {"content": f"chatcmpl-{first_id}"}


def test_state_summary_leaves_out_defaults_and_our_own_fields() -> None:
    state = {
        "prev_tokens": ["a"],
        "read_offset": 0,
        "output_token_ids": [1, 2, 3],
        "output_chunk_lens": [2, 1],
        "checkpoint": "x",
        "signature": "y",
        "unheard_of": 1,
    }
    assert state_summary(state, IdNames()) == {
        "prev_tokens": ["a"],
        "n_output_tokens": 3,
        "n_chunks": 2,
        "unheard_of": 1,
    }


def test_the_recorded_answer_is_accepted_and_a_changed_one_is_not() -> None:
    for one in (first(stream=False), first(stream=True), first(stream=True, parser=True)):
        for mode in corpus.MODES:
            assert judge(one, copy.deepcopy(expected(one)), mode).accepted
            wrong = copy.deepcopy(expected(one))
            (wrong[-1] if isinstance(wrong, list) else wrong)["status"] = 500
            assert not judge(one, wrong, mode).accepted


def test_the_state_of_a_parser_stream_counts_in_replay_mode_only() -> None:
    one = first(stream=True, parser=True)
    got = copy.deepcopy(expected(one))
    got[0]["state"] = {"n_chunks": 77}
    assert judge(one, got, "checkpoint").accepted
    assert not judge(one, got, "replay").accepted
    plain = first(stream=True)
    got = copy.deepcopy(expected(plain))
    got[0]["state"] = {"n_chunks": 77}
    assert not judge(plain, got, "checkpoint").accepted
    assert comparable(got, plain, "checkpoint") == got


def test_deviations() -> None:
    one = first(stream=False)
    refused = {"status": 400, "body": {"error": {"message": "we refuse this", "code": 400}}}
    deviation = Deviation(one["id"], "because", answers_error(400, "refuse", code=400))
    assert judge(one, refused, "checkpoint", [deviation]).accepted
    assert not judge(one, {**refused, "status": 500}, "checkpoint", [deviation]).accepted
    assert not judge(one, {"status": 400, "body": "odd"}, "checkpoint", [deviation]).accepted
    assert not judge(one, {"status": 400, "body": {"error": "odd"}}, "checkpoint", [deviation]).accepted
    # A deviation that no longer deviates is a failure, one for another case or mode changes nothing.
    verdict = judge(one, expected(one), "checkpoint", [deviation])
    assert not verdict.accepted
    assert "take it off" in verdict.report()
    assert not judge(one, refused, "checkpoint", [Deviation("other*", "because", deviation.check)]).accepted
    other_mode = Deviation("*", "because", deviation.check, modes=("replay",))
    assert not judge(one, refused, "checkpoint", [other_mode]).accepted


def test_deviation_in_named_fields_only() -> None:
    one = first(stream=False)
    got = copy.deepcopy(expected(one))
    got["body"]["object"], got["body"]["more"] = "x", 1
    check = answers_as_recorded_except({".body.object": "x", ".body.more": 1})
    assert judge(one, got, "replay", [Deviation("*", "because", check)]).accepted
    got["body"]["model"] = "y"
    assert not judge(one, got, "replay", [Deviation("*", "because", check)]).accepted
    missing = copy.deepcopy(expected(one))
    del missing["body"]["object"]
    check = answers_as_recorded_except({".body.object": ABSENT})
    assert judge(one, missing, "replay", [Deviation("*", "because", check)]).accepted
    assert not judge(one, got, "replay", [Deviation("*", "because", check)]).accepted


def echo_app() -> FastAPI:
    app = FastAPI()
    app.state.events = []
    app.router.on_startup.append(lambda: app.state.events.append("startup"))
    app.router.on_shutdown.append(lambda: app.state.events.append("shutdown"))

    @app.post("/echo")
    async def echo(request: Request) -> JSONResponse:
        return JSONResponse({"got": await request.json(), "type": request.headers["content-type"]}, status_code=201)

    @app.get("/broken")
    def broken() -> None:
        raise ZeroDivisionError("broken")

    return app


def test_in_process_calls_the_application_and_its_lifespan() -> None:
    app = echo_app()
    application = InProcess(app)
    assert app.state.events == ["startup"]
    body = json.dumps({"a": "é"}).encode()
    answered = application.call("POST", "/echo", body, {"content-type": "application/json"})
    assert answered == (201, {"got": {"a": "é"}, "type": "application/json"})
    assert application.call("GET", "/nowhere", b"", {}) == (404, {"detail": "Not Found"})
    with pytest.raises(ZeroDivisionError):
        application.call("GET", "/broken", b"", {})
    application.close()
    assert app.state.events == ["startup", "shutdown"]


def test_a_stream_carries_one_state_per_choice_and_stops_at_an_error() -> None:
    seen = []

    def call(method: str, path: str, raw: bytes, headers: dict[str, str]) -> tuple[int, corpus.Json]:
        body = json.loads(raw)
        seen.append(body["stream_state"])
        if body["generate_chunk"]["choices"] and body["generate_chunk"]["choices"][0]["token_ids"] == [0]:
            return 400, {"error": {}}
        state = {"read_offset": len(seen)}
        return 200, {"chunk": {"id": "x", "created": 1}, "stream_state": state}

    chunks = [
        {"choices": [{"index": 0, "token_ids": [1]}]},
        {"choices": [{"index": 1, "token_ids": [1]}]},
        {"choices": []},
        {"choices": [{"index": 1, "token_ids": [0]}]},
        {"choices": [{"index": 0, "token_ids": [1]}]},
    ]
    one = {"endpoint": "/v1/chat/completions/derender", "stream": {"common": {"model": "m"}, "chunks": chunks}}
    answers = run_case(one, call)
    assert seen == [None, None, {"read_offset": 1}, {"read_offset": 2}]
    assert [answer["status"] for answer in answers] == [200, 200, 200, 400]
    assert answers[0] == {"status": 200, "chunk": {"id": "x"}, "state": {"read_offset": 1}}
