"""Requests from our own OpenAPI document, by schemathesis: data that fits it and data that does not."""

import warnings
from collections.abc import Iterator
from typing import Any

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis import GenerationMode

from tests.fuzz.deployment import Deployment, Request

_PARENT = "http://fuzz"


def run(deployment: Deployment, count: int, number: int) -> None:
    """Send about `count` requests, spread over all operations and both kinds of data; repeatable by `number`."""
    schema = schemathesis.openapi.from_dict(deployment.app.openapi())
    operations = [result.ok() for result in schema.get_all_operations()]
    # One example suffices where an operation takes no data.
    bodied = [operation for operation in operations if operation.method.upper() == "POST" and operation.body]
    for operation in operations:
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            if operation in bodied:
                _send(deployment, operation, mode, max(1, count // (2 * len(bodied))), number)
            elif mode is GenerationMode.POSITIVE:
                _send(deployment, operation, mode, 1, number)


def _send(deployment: Deployment, operation: Any, mode: GenerationMode, count: int, number: int) -> None:
    @seed(number)
    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def each(case: Any) -> None:
        for request in _requests(case, mode):
            deployment.send(request)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        each()


def _requests(case: Any, mode: GenerationMode) -> Iterator[Request]:
    """The case as it would go over the wire; nothing where it cannot."""
    try:
        prepared = requests.Request(**case.as_transport_kwargs(base_url=_PARENT)).prepare()
    except (ValueError, requests.RequestException):
        return
    body = prepared.body or b""
    headers = {
        name: value.decode("latin-1") if isinstance(value, bytes) else value for name, value in prepared.headers.items()
    }
    headers.pop("Content-Length", None)
    path = (prepared.url or _PARENT).removeprefix(_PARENT)
    yield Request(
        f"openapi {mode.value}",
        prepared.method or "POST",
        path,
        body if isinstance(body, bytes) else str(body).encode("utf-8", "surrogatepass"),
        headers,
    )
