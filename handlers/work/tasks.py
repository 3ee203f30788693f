"""What a work process does: the functions of jobs, and what they find there.

The functions are named in a job and looked up by name, so they stand at module
level. They are given raw bodies: unpacking one is work, too.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message

from core.choice.output import Report
from core.model import Model
from handlers.audit import RequestFindings, findings_of
from handlers.body import unpack_body
from handlers.metrics import Work, work_of
from handlers.routing import Route
from handlers.web import FastAPI
from handlers.work.frames import apart

Headers = Sequence[tuple[bytes, bytes]]
_PIECE = 256 * 1024


@dataclass(frozen=True)
class Here:
    """What a process has been forked with: the application's routes by path, and its model.

    ``run`` waits for a coroutine.
    """

    app: FastAPI
    routes: Mapping[str, Route]
    model: Callable[[], Model]
    max_body_bytes: int
    run: Callable[[Coroutine[Any, Any, Any]], Any] = asyncio.run


@dataclass(frozen=True)
class Job:
    """A request: its path, headers, what the server knows of its caller, and its body as it came."""

    path: str
    headers: Headers
    state: Mapping[str, Any]
    body: Any

    def request(self, app: FastAPI) -> Request:
        """The request, without a client behind it."""
        scope = {
            "type": "http",
            "method": "POST",
            "path": self.path,
            "query_string": b"",
            "headers": list(self.headers),
            "state": dict(self.state),
            "app": app,
        }
        return Request(scope)


@dataclass(frozen=True)
class Findings:
    """What the audit found in a job; see ``handlers.audit``."""

    kinds: Counter[str]
    choices: int

    def note(self, request: Request, model: Model) -> None:
        """Put them to the request that the client sent."""
        found = findings_of(request, model)
        found.kinds, found.choices = self.kinds, self.choices


@dataclass(frozen=True)
class Answer:
    """A response in one piece."""

    status: int
    headers: Headers
    body: Any
    work: Work
    findings: Findings | None


def answer(here: Here, job: Job) -> Answer:
    """The response of a route.

    Raises:
        RequestError: as the route does.
    """
    request = job.request(here.app)
    body = unpack_body(bytes(job.body), request.headers, here.max_body_bytes)
    response = here.run(_response(here.routes[job.path], here.model(), body, request))
    start, content = here.run(_collected(response, request))
    found: RequestFindings | None = getattr(request.state, "findings", None)
    findings = None if found is None else Findings(found.kinds, found.choices)
    return Answer(start["status"], start["headers"], apart(content), work_of(request), findings)


def open_request(here: Here, job: Job) -> Any:
    """What a route in two steps makes of a request, for the second step.

    Raises:
        RequestError: as the route does.
    """
    request = job.request(here.app)
    body = unpack_body(bytes(job.body), request.headers, here.max_body_bytes)
    steps = here.routes[job.path].steps
    assert steps is not None
    return steps.open(here.model(), body, request)


def finish(here: Here, write: Callable[[Report], bytes]) -> tuple[Any, Findings]:
    """The text of an answer that ``write`` gives, and what the audit found."""
    found = RequestFindings(here.model())
    return apart(write(found.report)), Findings(found.kinds, found.choices)


async def _response(route: Route, model: Model, body: bytes, request: Request) -> Response:
    return await route.endpoint(model, body, request)


async def _collected(response: Response, request: Request) -> tuple[Message, bytes]:
    """What a response sends: its start, and the body."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    await response(request.scope, request.receive, send)
    return sent[0], b"".join(message.get("body", b"") for message in sent[1:])


class WorkedResponse(Response):
    """An answer of a work process. A large one goes out piece by piece, as the client takes it."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(status_code=answer.status)
        self.body = answer.body
        self.raw_headers = list(answer.headers)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        view = memoryview(self.body)
        for place in range(0, max(len(view), 1), _PIECE):
            more = place + _PIECE < len(view)
            piece = bytes(view[place : place + _PIECE])
            await send({"type": "http.response.body", "body": piece, "more_body": more})
