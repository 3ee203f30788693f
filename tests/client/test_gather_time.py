"""Gathering by time: a batch goes when its first chunk has waited, also while the engine is silent.

When exactly, simulated time shows. That real clients read, wait and stop as it says, they show against real servers, with
gates in place of pauses: the engine is silent until the test has seen what it waits for.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import aclosing
from typing import Any

import pytest

from derender_client import AsyncDerenderClient, DerenderClient
from tests.client.calling import SyncCaller
from tests.client.proxy import Call, Proxy
from tests.client.simulated import Simulation
from tests.client.staged import DONE, Endless, Gate, Pause, Stage, Step, chunk
from tests.support.waiting import PATIENCE, wait_for

pytestmark = pytest.mark.xdist_group("client")

REQUEST: dict[str, Any] = {"model": "qwen3", "messages": [{"role": "user", "content": "x"}]}
HELLO, COMMA, WORLD = 9707, 11, 1879
HOUR_MS = 3_600_000.0


def data(event: bytes) -> str:
    return event.decode().removeprefix("data: ").strip()


def batches(watched: Proxy) -> list[int]:
    """How many chunks each derender call had."""
    return [len(body.get("generate_chunks", [0])) for body in watched.bodies("/derender")]


class Watched(list[Any]):
    """A list that tells when it holds so many items."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.reached = threading.Event()

    def append(self, item: Any) -> None:
        super().append(item)
        if len(self) == self.size:
            self.reached.set()


def test_a_batch_goes_when_its_first_chunk_has_waited(service: str) -> None:
    play = [(0.0, chunk([HELLO])), (0.03, chunk([COMMA])), (0.8, chunk([WORLD], "stop")), (0.8, DONE)]
    simulation = Simulation(service, [(moment, data(event)) for moment, event in play])
    simulation.stream_chat(REQUEST, gather_tokens=100, gather_ms=100)
    assert simulation.batches == [2, 1]
    assert [moment for moment, _ in simulation.chunks] == pytest.approx([0.1, 0.1, 0.8])


def test_without_a_time_a_batch_waits_for_its_choice_to_finish(service: str) -> None:
    play = [(0.0, chunk([HELLO])), (1000.0, chunk([COMMA])), (2000.0, chunk([WORLD], "stop")), (3000.0, DONE)]
    simulation = Simulation(service, [(moment, data(event)) for moment, event in play])
    simulation.stream_chat(REQUEST, gather_tokens=100, gather_ms=None)
    assert simulation.batches == [3]
    assert [moment for moment, _ in simulation.chunks] == [2000.0] * 3


def test_zero_takes_what_came_in_during_the_last_call(service: str) -> None:
    # The engine is done long before the first derender call is: it goes alone, the rest in one.
    play = [(0.0, chunk([HELLO])), *[(0.2, chunk([COMMA]))] * 20, (0.2, chunk([WORLD], "stop")), (0.2, DONE)]
    simulation = Simulation(service, [(moment, data(event)) for moment, event in play], call_seconds=0.5)
    simulation.stream_chat(REQUEST, gather_tokens=100, gather_ms=0)
    assert simulation.batches == [1, 21]
    # Render, and the two calls.
    assert [moment for moment, _ in simulation.chunks] == pytest.approx([1.0, *[1.5] * 21])


def test_a_silent_engine_does_not_hold_back_what_it_sent(
    open_client: type[SyncCaller], watched: Proxy, stage: Stage
) -> None:
    seen = Watched(2)
    stage.play([chunk([HELLO]), chunk([COMMA]), Gate(seen.reached), chunk([WORLD], "stop"), DONE])
    with open_client(watched.url, stage.url) as client:
        client.ask_until(seen, "stream_chat", REQUEST, gather_tokens=100, gather_ms=100)
    assert sum(batches(watched)) == len(seen) == 3
    assert batches(watched)[-1] == 1


def test_without_a_time_the_batch_waits(open_client: type[SyncCaller], watched: Proxy, stage: Stage) -> None:
    stage.play([chunk([HELLO]), Pause(0.3), chunk([COMMA]), chunk([WORLD], "stop"), DONE])
    with open_client(watched.url, stage.url) as client:
        client.ask("stream_chat", REQUEST, gather_tokens=100)
    assert batches(watched) == [3]


def test_the_engine_is_read_while_a_call_is_under_way(
    open_client: type[SyncCaller], watched: Proxy, stage: Stage
) -> None:
    """The first answer is held back until the engine has got rid of more than the buffers between can hold."""
    comment = b": " + b"x" * 1_000_000 + b"\n\n"
    stage.play([chunk([HELLO]), *[comment] * 24, *[chunk([COMMA])] * 20, chunk([WORLD], "stop"), DONE])
    read_ahead: list[bool] = []

    def hold(call: Call) -> None:
        if call.path.endswith("/derender") and not read_ahead:
            read_ahead.append(stage.said_all.wait(PATIENCE))

    watched.before_answer = hold
    with open_client(watched.url, stage.url) as client:
        client.ask("stream_chat", REQUEST, gather_tokens=100, gather_ms=0)
    assert read_ahead == [True]
    assert sum(batches(watched)) == 22


def test_choices_of_a_moment_are_derendered_at_the_same_time(watched: Proxy, stage: Stage) -> None:
    """No call is answered before all four are there."""
    stage.play([*[chunk([HELLO], index=index) for index in range(4)], DONE])
    together = threading.Barrier(4, timeout=PATIENCE)
    watched.before_answer = lambda call: together.wait() if call.path.endswith("/derender") else None

    async def run() -> None:
        async with AsyncDerenderClient(watched.url, stage.url, max_retries=0) as client:
            request = {**REQUEST, "n": 4}
            chunks = [c async for c in client.stream_chat(request, gather_tokens=9, gather_ms=HOUR_MS)]
        assert len(chunks) == 4

    asyncio.run(run())
    assert batches(watched) == [1, 1, 1, 1]


LONG_PLAY: list[Step] = [chunk([HELLO]), chunk([COMMA]), Endless(chunk([COMMA]))]


def no_reader_is_left() -> bool:
    return not any(thread.name == "derender-reader" for thread in threading.enumerate())


@pytest.mark.parametrize("options", [{}, {"gather_tokens": 4, "gather_ms": 20}], ids=["single", "gathered"])
def test_closing_the_iterator_ends_the_engines_work(service: str, stage: Stage, options: dict[str, Any]) -> None:
    stage.play(LONG_PLAY)
    with DerenderClient(service, stage.url) as client:
        stream = client.stream_chat(REQUEST, **options)
        next(stream)
        stream.close()
        assert stage.left.wait(PATIENCE)
        assert wait_for(no_reader_is_left)


def test_closing_while_the_engine_is_silent(service: str, stage: Stage) -> None:
    opened = threading.Event()
    stage.play([chunk([HELLO]), Gate(opened), Endless(chunk([COMMA]))])
    with DerenderClient(service, stage.url) as client:
        stream = client.stream_chat(REQUEST, gather_tokens=4, gather_ms=1)
        next(stream)
        stream.close()
        # The thread that waited for the engine has been woken: the gate is still shut.
        assert wait_for(no_reader_is_left)
    opened.set()


def test_closing_the_async_iterator_ends_the_engines_work(service: str, stage: Stage) -> None:
    stage.play(LONG_PLAY)

    async def run() -> None:
        async with AsyncDerenderClient(service, stage.url) as client:
            async with aclosing(client.stream_chat(REQUEST)) as stream:
                await anext(stream)
            assert await asyncio.to_thread(stage.left.wait, PATIENCE)
            assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())


def test_cancelling_an_async_stream_ends_it(service: str, stage: Stage) -> None:
    stage.play(LONG_PLAY)

    async def run() -> None:
        async with AsyncDerenderClient(service, stage.url) as client:
            begun = asyncio.Event()

            async def consume() -> None:
                async for _ in client.stream_chat(REQUEST, gather_tokens=4, gather_ms=1000):
                    begun.set()

            task = asyncio.create_task(consume())
            await asyncio.wait_for(begun.wait(), PATIENCE)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await asyncio.to_thread(stage.left.wait, PATIENCE)

    asyncio.run(run())
