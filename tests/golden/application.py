"""The service in this process, one application per recorded server configuration, called without a network.

It must never answer anything itself: it builds the real application and passes bytes to it.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.golden.corpus import Json, Mode, Server

Message = MutableMapping[str, Any]
AsgiApp = Callable[[Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]


def make_app(server: Server, models_dir: Path, mode: Mode = "checkpoint") -> AsgiApp:
    """The service configured as `server` says, its model folder being `models_dir / server["model"]`.

    Every other key is a setting of the same name; `env` is what the service sees as its environment.
    """
    from handlers.server import server_app
    from handlers.settings import Settings

    options = {key: value for key, value in server.items() if key not in ("model", "env")}
    settings = Settings(
        model=str(models_dir / server["model"]),
        served_model_name=[server["model"]],
        stream_state=mode,
        parser_family="any",  # vLLM serves every pair, and was recorded with some odd ones
        environ=dict(server.get("env", {})),
        **options,
    )
    app: AsgiApp = server_app(settings)
    return app


class InProcess:
    """A started ASGI application and its event loop; `call` is a `replay.Call`."""

    def __init__(self, app: AsgiApp) -> None:
        self._app = app
        self._loop = asyncio.new_event_loop()
        self._to_lifespan: asyncio.Queue[Message] = asyncio.Queue()
        self._from_lifespan: asyncio.Queue[Message] = asyncio.Queue()
        self._lifespan: asyncio.Task[None] | None = None
        try:
            self._loop.run_until_complete(self._start())
        except BaseException:
            self._loop.close()
            raise

    async def _start(self) -> None:
        scope: Message = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": {}}
        run = self._app(scope, self._to_lifespan.get, self._from_lifespan.put)
        self._lifespan = asyncio.ensure_future(run)
        await self._lifespan_step("startup")

    async def _lifespan_step(self, name: str) -> None:
        """Ask for a step and wait for its answer; a failed step raises, an app without lifespan is left alone."""
        assert self._lifespan is not None
        await self._to_lifespan.put({"type": f"lifespan.{name}"})
        answer = asyncio.ensure_future(self._from_lifespan.get())
        await asyncio.wait({answer, self._lifespan}, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            answer.cancel()
            error = self._lifespan.exception()
            if error is not None:
                raise error
        elif answer.result()["type"] == f"lifespan.{name}.failed":
            raise RuntimeError(f"the application's {name} failed: {answer.result().get('message')}")

    def call(self, method: str, path: str, raw: bytes, headers: dict[str, str]) -> tuple[int, Json]:
        """One request.  An exception that leaves the application is raised here, even after a 500 was sent."""
        status, body = self.call_raw(method, path, raw, headers)
        try:
            return status, json.loads(body)
        except ValueError:
            return status, body.decode("utf-8", "replace")

    def call_raw(self, method: str, path: str, raw: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        """As `call`, the answer as it came."""
        return self._loop.run_until_complete(self._call(method, path, raw, headers))

    async def _call(self, method: str, path: str, raw: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        sent: list[Message] = []
        requests: Iterator[Message] = iter([{"type": "http.request", "body": raw, "more_body": False}])

        async def receive() -> Message:
            message = next(requests, None)
            if message is None:
                # The client stays until the answer is complete; the application's task ends this wait.
                await asyncio.Event().wait()
            return message or {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            sent.append(message)

        fields = {"host": "golden", "content-length": str(len(raw)), **headers}
        path, _, query = path.partition("?")
        scope: Message = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode("ascii"),
            "query_string": query.encode("ascii"),
            "root_path": "",
            "headers": [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in fields.items()],
            "client": ("127.0.0.1", 40000),
            "server": ("golden", 80),
            "state": {},
        }
        await self._app(scope, receive, send)
        body = b"".join(message.get("body", b"") for message in sent if message["type"] == "http.response.body")
        return sent[0]["status"], body

    def close(self) -> None:
        try:
            if self._lifespan is not None and not self._lifespan.done():
                self._loop.run_until_complete(self._lifespan_step("shutdown"))
        finally:
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()


@contextmanager
def running(server: Server, models_dir: Path, mode: Mode) -> Iterator[InProcess]:
    """The application of one configuration, started and in the end stopped."""
    application = InProcess(make_app(server, models_dir, mode))
    try:
        yield application
    finally:
        application.close()
