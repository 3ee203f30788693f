"""Connections to the engine are kept between requests, and one that was closed meanwhile is no error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import openai
import pytest
import uvicorn

from handlers.engine_client import GENERATE
from tests.engine.generation import Engine
from tests.engine.server import create_app as create_engine_app
from tests.relay.conftest import MODEL, client_of
from tests.support.serving import observed, serving
from tests.support.waiting import wait_for


@contextmanager
def recorded(
    engine: Engine, make_relay: Callable[..., Any], **options: Any
) -> Iterator[tuple[str, list[int], uvicorn.Server]]:
    """A relay, the ports from which each of its requests came to the engine, and the engine's server.

    The question for the engine's version, which the relay asks once as it starts, is not counted.
    """
    app, ports = create_engine_app(engine), []

    async def recording(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"] == GENERATE:
            ports.append(scope["client"][1])
        await app(scope, receive, send)

    with observed(recording, **options) as (engine_url, server), serving(make_relay(engine_url)) as url:
        yield url, ports, server


def ask(url: str, question: str, stream: bool, **more: Any) -> str:
    answer: Any = client_of(url).chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": question}], stream=stream, **more
    )
    if not stream:
        return str(answer.choices[0].message.content)
    return "".join(chunk.choices[0].delta.content or "" for chunk in answer)


def test_one_connection_serves_many_requests(
    make_engine: Callable[..., Engine], make_relay: Callable[..., Any]
) -> None:
    with recorded(make_engine(), make_relay) as (url, ports, _):
        for _ in range(3):
            for stream in (True, False):
                ask(url, "Hello", stream)
                ask(url, "count", stream, max_tokens=20)
        assert len(ports) == 12
        assert len(set(ports)) == 1


def test_an_error_does_not_cost_the_connection(
    make_engine: Callable[..., Engine], make_relay: Callable[..., Any]
) -> None:
    with recorded(make_engine(), make_relay) as (url, ports, _):
        for _ in range(3):
            with pytest.raises(openai.BadRequestError, match="the script says"):
                ask(url, "answers 400", False)
        assert len(set(ports)) == 1


@pytest.mark.parametrize("stream", [True, False])
def test_a_connection_that_the_engine_closed_is_replaced(
    make_engine: Callable[..., Engine], make_relay: Callable[..., Any], stream: bool
) -> None:
    with recorded(make_engine(), make_relay, timeout_keep_alive=1) as (url, ports, engine):
        ask(url, "Hello", stream)
        assert wait_for(lambda: not engine.server_state.connections)
        assert ask(url, "Hello", stream) == "Hello! How can I help you today?"
        assert len(set(ports)) == 2


def test_kept_connections_that_are_all_closed_cost_no_answer(
    make_engine: Callable[..., Engine], make_relay: Callable[..., Any]
) -> None:
    """An engine closes those of a burst at one time, as the next burst comes: a second kept one is no better."""
    app = create_engine_app(make_engine())
    used: set[int] = set()

    async def once(scope: Any, receive: Any, send: Any) -> None:
        """Says nothing to the second request of a connection, and closes it."""
        if scope["type"] == "http" and scope["path"] == GENERATE:
            port = scope["client"][1]
            if port in used:
                writer = send.__self__.transport
                writer.abort()
                return
            used.add(port)
        await app(scope, receive, send)

    with serving(once) as engine_url, serving(make_relay(engine_url)) as url, ThreadPoolExecutor(8) as pool:
        for _ in range(3):
            answers = list(pool.map(lambda _: ask(url, "Hello", False), range(8)))
            assert answers == ["Hello! How can I help you today?"] * 8
