"""The log's lines: metrics that CloudWatch reads, ids that find a request again, and nothing that a client sent."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mangum import Mangum
from starlette.requests import Request

from core.errors import Unavailable
from handlers.app import create_app
from handlers.derender_endpoints import DERENDER
from handlers.logs import RequestLog, write_fault, write_line
from handlers.metrics import Work, count
from handlers.responses import json_response
from handlers.settings import Settings
from tests.support.gateway import event

CHAT = "/v1/chat/completions/derender"


def request(headers: dict[str, str] | None = None, **scope: Any) -> Request:
    pairs = [(k.encode(), v.encode()) for k, v in (headers or {}).items()]
    return Request({"type": "http", "headers": pairs, **scope})


def line_of(log: RequestLog, lines: list[str], made: Request, status: int = 200) -> dict[str, Any]:
    log.request(made, CHAT, json_response({"a": 1}, status), 0.0125)
    return json.loads(lines[-1]) if lines else {}


def test_a_line_is_the_embedded_metric_format() -> None:
    lines: list[str] = []
    log = RequestLog("f", write=lines.append)
    made = request(**{"aws.context": SimpleNamespace(aws_request_id="lambda-1")})
    count(made, Work(prompt_tokens=3, completion_tokens=7, chunks=2))
    line = line_of(log, lines, made)
    assert lines[0].endswith("\n")
    assert lines[0].count("\n") == 1
    assert (line["completion_tokens"], line["prompt_tokens"], line["chunks"], line["duration_ms"]) == (7, 3, 2, 12.5)
    assert (line["request_id"], line["endpoint"], line["status"], line["answer_bytes"]) == ("lambda-1", CHAT, 200, 7)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["timestamp"])
    (directive,) = line["_aws"]["CloudWatchMetrics"]
    assert directive["Namespace"] == "derender"
    assert all(set(names) <= set(line) for names in directive["Dimensions"])
    units = {metric["Name"]: metric["Unit"] for metric in directive["Metrics"]}
    assert units["duration_ms"] == "Milliseconds"
    assert set(units) <= set(line)
    assert abs(line["_aws"]["Timestamp"] / 1000 - time.time()) < 60


def test_the_first_request_is_cold_and_muted_ones_do_not_count() -> None:
    lines: list[str] = []
    log = RequestLog("f", write=lines.append)
    log.muted = True
    assert line_of(log, lines, request()) == {}
    log.muted = False
    assert line_of(log, lines, request())["cold_start"]
    assert not line_of(log, lines, request())["cold_start"]


@pytest.mark.parametrize(
    ("status", "refused", "faults"), [(200, 0, 0), (404, 1, 0), (413, 1, 0), (500, 0, 1), (503, 0, 1)]
)
def test_only_errors(status: int, refused: int, faults: int) -> None:
    lines: list[str] = []
    line = line_of(RequestLog("f", only_errors=True, write=lines.append), lines, request(), status)
    assert (line == {}) == (status == 200)
    if line:
        assert (line["refused"], line["faults"]) == (refused, faults)
        assert line["level"] == ("ERROR" if faults else "INFO")


def test_a_clients_id_is_bounded() -> None:
    lines: list[str] = []
    line = line_of(RequestLog("f", write=lines.append), lines, request({"x-request-id": "i" * 5000}))
    assert line["client_request_id"] == "i" * 128


def test_a_fault_names_code_and_not_what_it_held(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        raise KeyError("the prompt of a client")
    except KeyError as exc:
        write_fault(exc, CHAT)
    line = json.loads(capsys.readouterr().out)
    assert line["exception"] == "KeyError"
    assert "test_logs.py" in line["frames"][-1]
    assert "prompt" not in json.dumps(line)


def test_an_application_without_a_log_is_silent(models_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    handler = Mangum(create_app(Settings(model=str(models_dir / "qwen3")), DERENDER), lifespan="off")
    assert handler(event(CHAT, {"generate_response": {"choices": []}}), None)["statusCode"] == 200  # type: ignore[arg-type]
    assert capsys.readouterr().out == ""


def test_a_fault_is_a_500_that_says_nothing(
    models_dir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any) -> None:
        raise RuntimeError("holds the client's secret")

    monkeypatch.setattr("core.dialects.chat.derender.derender", fail)
    settings = Settings(model=str(models_dir / "qwen3"), request_log="errors")
    handler = Mangum(create_app(settings, DERENDER), lifespan="off")
    answer = handler(event(CHAT, {"generate_response": {"choices": []}}), None)  # type: ignore[arg-type]
    assert answer["statusCode"] == 500
    fault, logged = map(json.loads, capsys.readouterr().out.splitlines())
    assert (fault["message"], logged["faults"]) == ("fault", 1)
    assert "secret" not in answer["body"] + json.dumps([fault, logged])


def test_a_reason_is_for_the_log_alone() -> None:
    error = Unavailable("later", reason="s3://bucket/prefix: no permission")
    assert "bucket" not in json.dumps(error.body())


def test_lines_hold_whatever_they_are_given(capsys: pytest.CaptureFixture[str]) -> None:
    write_line("ERROR", "odd", path=Path("x"), text="a\nb")
    assert json.loads(capsys.readouterr().out)["text"] == "a\nb"
