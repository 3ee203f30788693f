"""Events of other gateways than the template's: load balancers, also those that send lists of headers, and paths with a
prefix; and what the handler answers by itself, in the form of the event."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from handlers.derender_endpoints import DERENDER
from handlers.invocation import Handler, lambda_handler
from tests.support.gateway import V1, V2, event

CHAT = "/v1/chat/completions/derender"
LIMIT = 1024
TARGET = "arn:aws:elasticloadbalancing:eu-west-1:123456789012:targetgroup/derender/6d0ecf831eec9f09"


@pytest.fixture
def handler(models_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Handler:
    """Built as Lambda builds it, from the environment; an answer may have 1,024 bytes."""
    monkeypatch.setenv("DERENDER_MODEL", str(models_dir / "qwen3"))
    monkeypatch.setenv("DERENDER_SERVED_MODEL_NAME", "qwen3")
    monkeypatch.setenv("DERENDER_MAX_RESPONSE_BYTES", str(LIMIT))
    return lambda_handler(DERENDER)


def balanced(body: Any, *, lists: bool, path: str = CHAT) -> dict[str, Any]:
    """An event as an Application Load Balancer sends it, with lists of headers where its target group wants them."""
    headers = {"content-type": "application/json", "host": "lb", "x-forwarded-for": "203.0.113.7"}
    found: dict[str, Any] = {
        "requestContext": {"elb": {"targetGroupArn": TARGET}},
        "httpMethod": "POST",
        "path": path,
        "body": body if isinstance(body, str) else json.dumps(body),
        "isBase64Encoded": False,
    }
    if lists:
        return {
            **found,
            "multiValueQueryStringParameters": {},
            "multiValueHeaders": {name: [value] for name, value in headers.items()},
        }
    return {**found, "queryStringParameters": {}, "headers": headers}


def answered(tokens: int) -> dict[str, Any]:
    choice = {"index": 0, "token_ids": [9707] * tokens, "finish_reason": "stop"}
    return {"generate_response": {"request_id": "r", "choices": [choice]}}


@pytest.mark.parametrize("lists", [True, False], ids=["lists", "single"])
def test_i54_every_answer_has_the_form_of_its_event(handler: Handler, lists: bool) -> None:
    """Public report i54: a balancer that sends lists of headers takes no others."""
    broken = {**balanced("abc", lists=lists), "isBase64Encoded": True}
    asked = [
        (balanced(answered(1), lists=lists), 200),
        (balanced(answered(2000), lists=lists), 413),  # the handler's own
        (broken, 400),  # the handler's own
        (balanced("{", lists=lists), 400),
        (balanced({"generate_response": {"choices": []}, "model": "other"}, lists=lists), 404),
        ({**balanced("", lists=lists), "path": 7}, 400),  # the handler's own
    ]
    for sent, status in asked:
        answer = handler(sent, None)
        assert answer["statusCode"] == status, answer
        given, other = ("multiValueHeaders", "headers") if lists else ("headers", "multiValueHeaders")
        assert other not in answer
        kind = answer[given]["content-type"]
        assert kind == (["application/json"] if lists else "application/json")
        if status != 200:
            error = json.loads(answer["body"])["error"]
            assert set(error) == {"message", "type", "param", "code"}
            assert error["code"] == status


def test_i54_a_body_that_is_no_base64_is_said_so(handler: Handler, capsys: pytest.CaptureFixture[str]) -> None:
    for sent in (balanced("abc", lists=True), event(CHAT, "abc", version=V1), event(CHAT, "abc", version=V2)):
        answer = handler({**sent, "isBase64Encoded": True}, None)
        assert answer["statusCode"] == 400
        assert "base64" in json.loads(answer["body"])["error"]["message"]
    assert "ERROR" not in capsys.readouterr().out


def test_a_packed_body_of_a_balancer(handler: Handler) -> None:
    packed = base64.b64encode(json.dumps(answered(1)).encode()).decode()
    answer = handler({**balanced(packed, lists=True), "isBase64Encoded": True}, None)
    assert (answer["statusCode"], json.loads(answer["body"])["choices"][0]["message"]["content"]) == (200, "Hello")


@pytest.mark.parametrize("context", [7, "elb", ["elb"], None, {"elb": None}])
def test_odd_contexts_are_no_requests(handler: Handler, context: Any) -> None:
    answer = handler({"requestContext": context}, None)
    assert (answer["statusCode"], json.loads(answer["body"])["error"]["code"]) == (400, 400)


def test_i53_a_stage_before_the_path(models_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Public report i53: with ``--root-path``, in the events of every gateway."""
    monkeypatch.setenv("DERENDER_MODEL", str(models_dir / "qwen3"))
    monkeypatch.setenv("DERENDER_ROOT_PATH", "/prod")
    handler = lambda_handler(DERENDER)
    body = answered(1)
    for path in (f"/prod{CHAT}", CHAT):
        stage = event(path, body, version=V2)
        stage["requestContext"]["stage"] = "prod"
        for sent in (stage, event(path, body, version=V1), balanced(body, lists=True, path=path)):
            assert handler(sent, None)["statusCode"] == 200
    assert handler(event(f"/other{CHAT}", body), None)["statusCode"] == 404
