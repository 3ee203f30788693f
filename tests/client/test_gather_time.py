"""Gathering by time: a batch goes when its first chunk has waited, also while the engine is silent."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import aclosing
from typing import Any

import pytest

from derender_client import AsyncDerenderClient, DerenderClient
from tests.client.calling import SyncCaller
from tests.client.proxy import Proxy
from tests.client.staged import DONE, Pause, Stage, Step, chunk

pytestmark = pytest.mark.xdist_group("client")

REQUEST: dict[str, Any] = {"model": "qwen3", "messages": [{"role": "user", "content": "x"}]}
HELLO, COMMA, WORLD = 9707, 11, 1879


def batches(watched: Proxy) -> list[int]:
    """How many chunks each derender call had."""
    return [len(body.get("generate_chunks", [0])) for body in watched.bodies("/derender")]


def test_a_silent_engine_does_not_hold_back_what_it_sent(
    open_client: type[SyncCaller], watched: Proxy, stage: Stage
) -> None:
    stage.play([chunk([HELLO]), chunk([COMMA]), Pause(0.8), chunk([WORLD], "stop"), DONE])
    seen: list[Any] = []
    times: list[float] = []

    class Stamped(list[Any]):
        def append(self, item: Any) -> None:
            times.append(time.monotonic())
            super().append(item)

    seen = Stamped()
    with open_client(watched.url, stage.url) as client:
        client.ask("stream_chat", REQUEST)  # connections are open, the server is known
        watched.calls.clear()
        times.clear()
        begun = time.monotonic()
        client.ask_until(seen, "stream_chat", REQUEST, gather_tokens=100, gather_ms=100)
    assert batches(watched) == [2, 1]
    first, second, third = (moment - begun for moment in times)
    assert 0.1 <= first < 0.8
    assert second - first < 0.1
    assert third >= 0.8


def test_without_a_time_the_batch_waits(open_client: type[SyncCaller], watched: Proxy, stage: Stage) -> None:
    stage.play([chunk([HELLO]), Pause(0.3), chunk([COMMA]), chunk([WORLD], "stop"), DONE])
    with open_client(watched.url, stage.url) as client:
        client.ask("stream_chat", REQUEST, gather_tokens=100)
    assert batches(watched) == [3]


def test_zero_takes_what_came_in_during_the_last_call(
    open_client: type[SyncCaller], watched: Proxy, stage: Stage
) -> None:
    # The engine is done long before the first derender call is: it goes alone, the rest in one.
    watched.delay = 0.5
    stage.play([chunk([HELLO]), Pause(0.2), *[chunk([COMMA])] * 20, chunk([WORLD], "stop"), DONE])
    with open_client(watched.url, stage.url) as client:
        client.ask("stream_chat", REQUEST, gather_tokens=100, gather_ms=0)
    assert batches(watched) == [1, 21]


def test_choices_of_a_moment_are_derendered_at_the_same_time(watched: Proxy, stage: Stage) -> None:
    stage.play([*[chunk([HELLO], index=index) for index in range(4)], Pause(0.3), DONE])
    watched.delay = 0.2

    async def run() -> float:
        async with AsyncDerenderClient(watched.url, stage.url) as client:
            begun = time.monotonic()
            chunks = [c async for c in client.stream_chat({**REQUEST, "n": 4}, gather_tokens=9, gather_ms=50)]
        assert len(chunks) == 4
        return time.monotonic() - begun

    # Render, and one round of calls; one after the other they would take 0.8 s.
    assert asyncio.run(run()) < 1.0
    assert batches(watched) == [1, 1, 1, 1]


SLOWLY: list[Step] = [Pause(0.05), chunk([COMMA])]
LONG_PLAY: list[Step] = [chunk([HELLO]), chunk([COMMA]), *SLOWLY * 100, DONE]


@pytest.mark.parametrize("options", [{}, {"gather_tokens": 4, "gather_ms": 20}], ids=["single", "gathered"])
def test_closing_the_iterator_ends_the_engines_work(service: str, stage: Stage, options: dict[str, Any]) -> None:
    stage.play(LONG_PLAY)
    with DerenderClient(service, stage.url) as client:
        stream = client.stream_chat(REQUEST, **options)
        next(stream)
        begun = time.monotonic()
        stream.close()
        assert time.monotonic() - begun < 0.9
        assert stage.left.wait(2)
        assert not any(thread.name == "derender-reader" for thread in threading.enumerate())


def test_closing_while_the_engine_is_silent(service: str, stage: Stage) -> None:
    stage.play([chunk([HELLO]), Pause(3), chunk([COMMA]), *[chunk([COMMA])] * 50, DONE])
    with DerenderClient(service, stage.url) as client:
        stream = client.stream_chat(REQUEST, gather_tokens=4, gather_ms=1)
        next(stream)
        begun = time.monotonic()
        stream.close()
        assert time.monotonic() - begun < 0.9
        assert not any(thread.name == "derender-reader" for thread in threading.enumerate())


def test_closing_the_async_iterator_ends_the_engines_work(service: str, stage: Stage) -> None:
    stage.play(LONG_PLAY)

    async def run() -> None:
        async with AsyncDerenderClient(service, stage.url) as client:
            async with aclosing(client.stream_chat(REQUEST)) as stream:
                await anext(stream)
            assert await asyncio.to_thread(stage.left.wait, 2)
            assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())


def test_cancelling_an_async_stream_ends_it(service: str, stage: Stage) -> None:
    stage.play(LONG_PLAY)
    seen: list[Any] = []

    async def run() -> None:
        async with AsyncDerenderClient(service, stage.url) as client:

            async def consume() -> None:
                async for one in client.stream_chat(REQUEST, gather_tokens=4, gather_ms=1000):
                    seen.append(one)

            task = asyncio.create_task(consume())
            while not seen:
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await asyncio.to_thread(stage.left.wait, 2)

    asyncio.run(run())
