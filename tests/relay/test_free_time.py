"""What the loop loses is no silence of an engine."""

from __future__ import annotations

import asyncio
import time

import pytest

from handlers.free_time import Pulse, Silence


def test_silence_ends_a_wait() -> None:
    async def run() -> None:
        pulse = Pulse()
        with pulse, pytest.raises(TimeoutError):
            async with Silence(pulse, 0.01):
                await asyncio.Event().wait()

    asyncio.run(run())


@pytest.mark.parametrize("blocks", [1, 3])
def test_a_busy_loop_makes_no_silence(blocks: int) -> None:
    """The answer is there before the time is up; only, nobody looks until it is long past."""

    async def run() -> None:
        pulse = Pulse()
        said: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        ours, theirs = await _pair(said)
        with pulse:
            await asyncio.sleep(0)
            async with Silence(pulse, 0.2):
                theirs.write(b"said\n")
                for _ in range(blocks):
                    time.sleep(0.5)  # the loop's own work
                    await asyncio.sleep(0)
                assert await said == "said"
        ours.close()
        theirs.close()
        assert pulse.lost > 0.2

    asyncio.run(run())


def test_time_lost_before_counts_until_the_silence_is_broken() -> None:
    """Waits of one silence go on where the last one ended, each with what was lost."""

    async def run() -> None:
        pulse = Pulse()
        with pulse:
            silence = Silence(pulse, 0.2)
            await asyncio.sleep(0)
            time.sleep(0.5)
            async with silence:
                await asyncio.sleep(0.05)
            with pytest.raises(TimeoutError):
                async with silence:
                    await asyncio.Event().wait()

    asyncio.run(run())


def test_a_wait_that_became_another_has_no_end() -> None:
    async def run() -> None:
        pulse = Pulse()
        silence = Silence(pulse, 0.01)
        with pulse:
            async with silence:
                silence.over()
                await asyncio.sleep(0.1)

    asyncio.run(run())


def test_the_pulse_stops_with_its_last_user() -> None:
    async def run() -> None:
        pulse = Pulse()
        with pulse:
            with pulse:
                pass
            assert pulse._timer is not None
        assert pulse._timer is None

    asyncio.run(run())


async def _pair(said: asyncio.Future[str]) -> tuple[asyncio.Server, asyncio.StreamWriter]:
    """A connection whose first line becomes the result of ``said``, by way of the loop's selector."""

    async def read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said.set_result((await reader.readline()).decode().strip())
        writer.close()

    server = await asyncio.start_server(read, "127.0.0.1", 0)
    _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    return server, writer
