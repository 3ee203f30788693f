"""What an operator sees of a server: metrics, load, one id for a request, lines for what is refused, traces."""

from __future__ import annotations

import gzip
import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client.parser import text_string_to_metric_families

from core.errors import ConfigurationError
from handlers.log_output import LogOutput, as_text, writing_to
from tests.engine.server import create_app as create_engine_app
from tests.relay.conftest import Setup
from tests.support.servers import free_port, running
from tests.support.serving import free_address, serving
from tests.support.waiting import wait_for

CHAT = "/v1/chat/completions"
HELLO = {"messages": [{"role": "user", "content": "Hello there"}]}
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@contextmanager
def logged() -> Iterator[list[dict[str, Any]]]:
    """The lines of the log, until the end of the block."""
    lines: list[dict[str, Any]] = []
    with writing_to(LogOutput(lambda line: lines.append(json.loads(line)))):
        yield lines


def samples(url: str, **headers: str) -> dict[tuple[str, ...], float]:
    """The values of ``/metrics``, by name and values of labels."""
    answer = httpx.get(f"{url}/metrics", headers=headers)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    families = text_string_to_metric_families(answer.text)
    return {
        (one.name, *(one.labels[name] for name in sorted(one.labels))): one.value
        for family in families
        for one in family.samples
    }


def recorded_engine(make_engine: Callable[..., Any]) -> tuple[Callable[..., Any], list[dict[str, str]]]:
    """A scripted engine, and the headers of what it is asked to generate."""
    heads: list[dict[str, str]] = []
    engine = create_engine_app(make_engine(), None)

    async def recording(scope: Any, receive: Any, send: Any) -> None:
        if scope.get("path", "").endswith("/generate"):
            heads.append({name.decode(): value.decode() for name, value in scope["headers"]})
        await engine(scope, receive, send)

    return recording, heads


def test_counts(start: Callable[..., Setup]) -> None:
    setup = start()
    httpx.post(setup.url + CHAT, json=HELLO)
    with httpx.stream("POST", setup.url + CHAT, json={**HELLO, "stream": True}) as stream:
        stream.read()
    httpx.post(setup.url + CHAT, json={"messages": 1})
    httpx.post(setup.url + CHAT, json={**HELLO, "model": "another"})
    httpx.get(f"{setup.url}/secret/{'x' * 50}")
    httpx.delete(setup.url + CHAT)
    assert wait_for(lambda: samples(setup.url)[("derender_streams_running",)] == 0)
    found = samples(setup.url)
    assert found["derender_requests_total", CHAT, "200"] == 2
    assert found["derender_requests_total", CHAT, "400"] == 1
    assert found["derender_errors_total", CHAT, "ModelNotFound", "404"] == 1
    assert found["derender_errors_total", "other", "NotFound", "404"] == 1
    assert found["derender_errors_total", "other", "MethodNotAllowed", "405"] == 1
    assert found["derender_request_seconds_count", CHAT] == 4
    assert found["derender_completion_tokens_total", CHAT] > 10
    assert found["derender_prompt_tokens_total", CHAT] > 10
    assert found["derender_chunks_total", CHAT] > 3
    assert found["derender_requests_running",] == 1  # the one that asks
    assert found["derender_engine_usable", setup.engine_url.removeprefix("http://")] == 1
    assert not any("xxxx" in label for labels in found for label in labels)
    assert httpx.get(f"{setup.url}/load").json() == {"server_load": 0}


def test_streams_and_the_load_while_they_run(start: Callable[..., Setup]) -> None:
    setup = start()
    body = {"messages": [{"role": "user", "content": "is silent"}], "stream": True}
    with httpx.stream("POST", setup.url + CHAT, json=body) as stream:
        blocks = stream.iter_raw()  # kept: at its end it leaves
        next(blocks)
        assert samples(setup.url)["derender_streams_running",] == 1
        assert httpx.get(f"{setup.url}/load").json() == {"server_load": 1}
    # The client has left.
    assert wait_for(lambda: httpx.get(f"{setup.url}/load").json() == {"server_load": 0})
    assert samples(setup.url)["derender_streams_running",] == 0


def test_an_engine_that_failed_and_lost_answers(start: Callable[..., Setup], make_relay: Callable[..., Any]) -> None:
    dead = free_address()
    with serving(make_relay(dead, work_processes=0)) as url:
        assert httpx.post(url + CHAT, json=HELLO).status_code == 503
        found = samples(url)
    assert found["derender_engine_usable", dead.removeprefix("http://")] == 0
    assert found["derender_errors_total", CHAT, "EngineUnavailable", "503"] == 1
    setup = start(tool_call_parser="hermes", enable_auto_tool_choice=True)
    path = f"{CHAT}/derender"
    lost = {"choices": [{"index": 0, "token_ids": setup_ids(setup, "<tool_call>\nno json\n</tool_call>")}]}
    body = {"generate_response": lost, "chat_request": {**HELLO, "tools": [TOOL]}, "prompt_tokens": 1}
    assert httpx.post(setup.url + path, json=body).status_code == 200
    kinds = {labels[1]: value for labels, value in samples(setup.url).items() if "audit" in labels[0]}
    assert kinds
    assert all(value > 0 for value in kinds.values())


TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}


def setup_ids(setup: Setup, text: str) -> list[int]:
    asked = {"prompt": text, "add_special_tokens": False}
    ids: list[int] = httpx.post(f"{setup.url}/tokenize", json=asked).json()["tokens"]
    return ids


def test_ready_with_an_engine_alone(make_engine: Callable[..., Any], make_relay: Callable[..., Any]) -> None:
    """An engine that is away makes a server unready, where that is asked for, and never unhealthy; many ask as one."""
    asked: list[str] = []
    engine = create_engine_app(make_engine(), None)
    well = True

    async def watched(scope: Any, receive: Any, send: Any) -> None:
        if scope.get("path") == "/health":
            asked.append(scope["path"])
            if not well:
                await send({"type": "http.response.start", "status": 503, "headers": []})
                await send({"type": "http.response.body", "body": b""})
                return
        await engine(scope, receive, send)

    with serving(watched) as address:
        with serving(make_relay(address, ready_with_engine=True, api_key=("k",))) as url:
            assert [httpx.get(f"{url}/ready").status_code for _ in range(20)] == [200] * 20
            assert len(asked) <= 10
            well = False
            assert wait_for(lambda: httpx.get(f"{url}/ready").status_code == 503)
            assert "no engine answers" in httpx.get(f"{url}/ready").json()["error"]["message"]
            assert httpx.get(f"{url}/health").status_code == 200
        with serving(make_relay(free_address())) as url:
            assert httpx.get(f"{url}/ready").status_code == 200


def test_metrics_want_the_key(make_relay: Callable[..., Any]) -> None:
    with serving(make_relay(free_address(), api_key=("k",))) as url:
        assert httpx.get(f"{url}/metrics").status_code == 401
        assert httpx.get(f"{url}/load").status_code == 401
        found = samples(url, authorization="Bearer k")
        assert found["derender_errors_total", "other", "Unauthorized", "401"] == 2


def test_one_id_in_the_line_and_in_the_answer(start: Callable[..., Setup]) -> None:
    setup = start(request_log="all", api_key=("k",))
    key = {"authorization": "Bearer k"}
    with logged() as lines:
        named = httpx.post(setup.url + CHAT, json=HELLO, headers={**key, "x-request-id": "mine-1"})
        unnamed = httpx.post(setup.url + CHAT, json={"messages": 1}, headers=key)
        bad = httpx.post(setup.url + CHAT, json=HELLO, headers={**key, "x-request-id": "x" * 200})
        refused = httpx.post(setup.url + CHAT, json=HELLO)
        missing = httpx.get(f"{setup.url}/nowhere", headers=key)
        with httpx.stream("POST", setup.url + CHAT, json={**HELLO, "stream": True}, headers=key) as stream:
            stream.read()
        assert wait_for(lambda: len(lines) == 6)
    answers = [named, unnamed, bad, refused, missing, stream]
    ids = [answer.headers["x-request-id"] for answer in answers]
    assert ids[0] == "mine-1"
    assert len(set(ids)) == 6
    assert "x" * 200 not in ids
    assert [line["request_id"] for line in lines] == ids
    assert [line["status"] for line in lines] == [200, 400, 200, 401, 404, 200]
    assert [line["endpoint"] for line in lines] == [CHAT] * 3 + ["other", "other", CHAT]
    assert not any("_aws" in line for line in lines), "CloudWatch's part is for AWS"


def test_a_client_that_leaves_is_logged_as_such(start: Callable[..., Setup]) -> None:
    setup = start(request_log="all")
    with logged() as lines:
        host, port = setup.url.removeprefix("http://").split(":")
        body = json.dumps({"messages": [{"role": "user", "content": "is silent at once"}]}).encode()
        with socket.create_connection((host, int(port))) as client:
            head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
            client.sendall(head.encode() + body)
            assert wait_for(lambda: bool(setup.engine.seen))
        assert wait_for(lambda: bool(lines))
    assert lines[0]["status"] == 499
    assert lines[0]["endpoint"] == CHAT


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        ({"traceparent": TRACE, "tracestate": "a=1,b=2"}, {"traceparent": TRACE, "tracestate": "a=1,b=2"}),
        ({"traceparent": TRACE}, {"traceparent": TRACE}),
        ({"traceparent": TRACE, "tracestate": "x" * 600}, {"traceparent": TRACE}),
        ({"tracestate": "a=1"}, {}),
        ({"traceparent": TRACE.upper()}, {}),
        ({"traceparent": "00-" + "0" * 32 + "-b7ad6b7169203331-01"}, {}),
        ({"traceparent": "ff" + TRACE[2:]}, {}),
    ],
    ids=range(7),
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_trace_goes_on_to_the_engine(
    make_engine: Callable[..., Any],
    make_relay: Callable[..., Any],
    given: dict[str, str],
    passed: dict[str, str],
    stream: bool,
) -> None:
    recording, heads = recorded_engine(make_engine)
    with serving(recording) as address, serving(make_relay(address, work_processes=0)) as url:
        answer = httpx.post(url + CHAT, json={**HELLO, "stream": stream}, headers=given)
        assert answer.status_code == 200
    (head,) = heads
    assert {name: head[name] for name in ("traceparent", "tracestate") if name in head} == passed


@contextmanager
def collector() -> Iterator[tuple[str, list[Any]]]:
    """A collector of OpenTelemetry's: its address, and the spans that came."""
    spans: list[Any] = []

    async def collect(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        if (b"content-encoding", b"gzip") in scope["headers"]:
            body = gzip.decompress(body)
        sent = ExportTraceServiceRequest.FromString(body)
        for of_resource in sent.resource_spans:
            spans.extend(span for of_scope in of_resource.scope_spans for span in of_scope.spans)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    with serving(collect) as url:
        yield f"{url}/v1/traces", spans


def test_spans_of_requests(make_engine: Callable[..., Any], make_relay: Callable[..., Any]) -> None:
    """Below the client's, above the engine's; refused requests and unknown paths, too. They hold no text."""
    recording, heads = recorded_engine(make_engine)
    with collector() as (address, spans), serving(recording) as engine_url:
        with serving(make_relay(engine_url, otlp_traces_endpoint=address)) as url:
            httpx.post(url + CHAT, json=HELLO, headers={"traceparent": TRACE})
            httpx.post(url + CHAT, json={"messages": 1})
            httpx.get(f"{url}/nowhere/secret")
            with httpx.stream("POST", url + CHAT, json={**HELLO, "stream": True}) as stream:
                stream.read()
        assert wait_for(lambda: len(spans) == 4)
    first, _, _, streamed = spans
    assert first.trace_id.hex() == TRACE.split("-")[1]
    assert first.parent_span_id.hex() == TRACE.split("-")[2]
    assert heads[0]["traceparent"] == f"00-{first.trace_id.hex()}-{first.span_id.hex()}-01"
    assert [span.name for span in spans] == [f"POST {CHAT}", f"POST {CHAT}", "GET other", f"POST {CHAT}"]
    values = [{one.key: one.value.int_value for one in span.attributes} for span in spans]
    assert [one["http.response.status_code"] for one in values] == [200, 400, 404, 200]
    assert values[0]["gen_ai.usage.output_tokens"] > 5
    assert values[3]["gen_ai.usage.output_tokens"] > 5
    assert streamed.end_time_unix_nano > streamed.start_time_unix_nano
    assert not any(b"secret" in span.SerializeToString() or b"Hello" in span.SerializeToString() for span in spans)


@pytest.mark.parametrize("address", ["collector:4317", ""])
def test_an_address_of_spans_that_is_none(make_relay: Callable[..., Any], address: str) -> None:
    if address:
        with pytest.raises(ConfigurationError, match="must be an http address"):
            make_relay(otlp_traces_endpoint=address)
    else:
        assert make_relay(otlp_traces_endpoint=address)


def test_a_page_of_the_endpoints_where_it_is_wanted(make_relay: Callable[..., Any]) -> None:
    with serving(make_relay(free_address())) as url:
        assert httpx.get(f"{url}/docs").status_code == 404
    with serving(make_relay(free_address(), docs=True, api_key=("k",))) as url:
        assert httpx.get(f"{url}/docs").status_code == 401
        page = httpx.get(f"{url}/docs", headers={"authorization": "Bearer k"})
        assert page.headers["content-type"].startswith("text/html")
        assert "openapi.json" in page.text


def test_several_processes_are_counted_together(models_dir: Path) -> None:
    """Whichever is asked; what one counted that has ended included."""
    port = free_port()
    command = [sys.executable, "-m", "handlers.commands", "serve", str(models_dir / "qwen3"), "--port", str(port)]
    url = f"http://127.0.0.1:{port}"
    with running([*command, "--workers", "2"], port, seconds=120):
        for _ in range(20):
            httpx.post(f"{url}/tokenize", json={"prompt": "Hello"})
        for _ in range(6):  # each on a connection of its own, which either takes
            assert samples(url)["derender_requests_total", "/tokenize", "200"] == 20


def test_lines_for_people(models_dir: Path, tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-m", "handlers.commands", "serve", str(models_dir / "qwen3"), "--port", str(port)]
    log = tmp_path / "log"
    with running([*command, "--request-log", "all", "--log-format", "text"], port, seconds=120, log=log):
        httpx.post(f"http://127.0.0.1:{port}/tokenize", json={"prompt": "Hello"}, headers={"x-request-id": "a=b"})
    line = next(line for line in log.read_text().splitlines() if "/tokenize" in line)
    assert ' INFO request request_id="a=b" function=derender endpoint=/tokenize status=200 cold_start=true ' in line
    assert "_aws" not in line
    told = as_text('{"level":"WARNING","message":"m","x":"a\\nb","y":null,"z":1.5}')
    assert told == 'WARNING m x="a\\nb" y=null z=1.5\n'


def test_cloudwatch_where_it_is_asked_for(models_dir: Path) -> None:
    port = free_port()
    command = [sys.executable, "-m", "handlers.commands", "serve", str(models_dir / "qwen3"), "--port", str(port)]
    with subprocess.Popen(
        [*command, "--request-log", "all", "--log-format", "cloudwatch"], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            url = f"http://127.0.0.1:{port}"
            assert wait_for(lambda: _is_up(url), 120)
            httpx.post(f"{url}/tokenize", json={"prompt": "Hello"})
            assert process.stdout is not None
            lines = (json.loads(line) for line in process.stdout)
            assert "_aws" in next(line for line in lines if line["message"] == "request")
        finally:
            process.terminate()


def _is_up(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health").status_code == 200
    except httpx.TransportError:
        return False
