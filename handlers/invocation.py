"""One Lambda invocation: the gateway's event in, its answer out, within what Lambda lets pass.

Whatever goes wrong here is an answer in the error shape. A function error
would reach the client as the gateway's own 502, which says nothing.
"""

from __future__ import annotations

import binascii
import json
import os
from collections.abc import Callable, Mapping
from typing import Any

from mangum import Mangum

from core.errors import ConfigurationError
from handlers.app import create_app
from handlers.fast_encoder import load_at_start
from handlers.logs import RequestLog, write_line
from handlers.routing import Router
from handlers.settings import PREFIX, PREPARED, Settings, settings_from_environ

# Lambda's limit on a buffered answer, as JSON, in bytes. Above it the gateway answers 502.
MAX_RESPONSE_BYTES = 6_291_556
# A character of the body takes at most six bytes in the answer's JSON (\\u001f).
_WORST_CASE = 6
_HEADERS_ROOM = 64 * 1024
_DEFAULTS = {
    f"{PREFIX}MAX_RESPONSE_BYTES": str(MAX_RESPONSE_BYTES),
    f"{PREFIX}REQUEST_LOG": "all",
}

Handler = Callable[[dict[str, Any], Any], dict[str, Any]]


def lambda_handler(router: Router) -> Handler:
    """The handler of the function that serves ``router``, with its model loaded.

    Raises:
        ConfigurationError: the settings or the model cannot work; with SnapStart
            also when the model cannot be loaded now, so that no version is
            published without it.
    """
    environ = {**_DEFAULTS, **{name: value for name, value in os.environ.items() if value}}
    settings = settings_from_environ(environ)
    app = create_app(settings, router)
    handler = _bounded(Mangum(app, lifespan="off"), settings)
    prepared = environ.get("AWS_LAMBDA_INITIALIZATION_TYPE") in PREPARED
    if router.encodes:
        load_at_start(app.state.loader, settings, prepared)
    if prepared:
        from handlers.warming import warm_up  # an ordinary start loads what its first request needs, and no more

        _prepare(handler, app.state.request_log, lambda: warm_up(handler, router.paths))
    return handler


def _prepare(handler: Handler, log: RequestLog | None, warm_up: Callable[[], bool]) -> None:
    if log is not None:
        log.muted = True
    try:
        if not warm_up():
            raise ConfigurationError("the model could not be loaded: this version would never be ready; see the log")
    finally:
        if log is not None:
            log.muted = False


def _bounded(adapter: Mangum, settings: Settings) -> Handler:
    limit = settings.max_response_bytes or MAX_RESPONSE_BYTES

    def handle(event: dict[str, Any], context: Any) -> dict[str, Any]:
        try:
            answer = adapter(event, context)
        except binascii.Error:
            return _error(400, "Bad Request", "the event's body says that it is base64, and is none", event)
        except Exception as exc:
            # The application answers whatever goes wrong in it: this is an event that no gateway sends.
            write_line("ERROR", "not an event of API Gateway", exception=type(exc).__name__)
            return _error(400, "Bad Request", "the event is not a request from API Gateway", event)
        if _size(answer, limit) > limit:
            write_line("ERROR", "the answer is too large", answer_bytes=len(answer["body"]), limit=limit)
            return _error(
                413,
                "RequestEntityTooLargeError",
                f"the answer is larger than the {limit} bytes that a Lambda function may return; "
                f"ask for less at once (fewer choices or logprobs, or a stream)",
                event,
            )
        return answer

    return handle


def _size(answer: Mapping[str, Any], limit: int) -> int:
    """Bytes of the answer as Lambda's runtime writes it. Counted in full only where it matters."""
    body: str = answer["body"]
    if len(body) * _WORST_CASE + _HEADERS_ROOM < limit:
        return len(body)
    text = json.dumps(answer, ensure_ascii=False)
    # Beyond JSON's own escapes, the runtime writes these two line ends as \\u2028 and \\u2029.
    return len(text.encode("utf-8", "surrogatepass")) + 3 * (text.count("\u2028") + text.count("\u2029"))


def _error(status: int, kind: str, message: str, event: Any) -> dict[str, Any]:
    body = {"error": {"message": message, "type": kind, "param": None, "code": status}}
    # A load balancer that sends lists of headers drops an answer's other form of them.
    context = event.get("requestContext") if isinstance(event, dict) else None
    lists = isinstance(context, dict) and "elb" in context and "multiValueHeaders" in event
    headers = {"multiValueHeaders": {"content-type": ["application/json"]}} if lists else None
    return {
        "statusCode": status,
        **(headers or {"headers": {"content-type": "application/json"}}),
        "body": json.dumps(body),
        "isBase64Encoded": False,
    }
