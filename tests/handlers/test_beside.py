"""A work in pieces leaves the event loop after a piece that took long, and comes back after a short one."""

from __future__ import annotations

import asyncio
import threading

import pytest

from handlers.beside import LONG, Pieces, beside


class Clock:
    """CPU time by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("long", [False, True])
def test_the_piece_after_a_long_one_is_done_beside_the_loop(long: bool) -> None:
    clock = Clock()

    def piece(seconds: float) -> bool:
        clock.now += seconds
        return threading.current_thread() is not threading.main_thread()

    async def run() -> list[bool]:
        pieces = Pieces(piece, long=long, clock=clock)
        return [
            await pieces.beside(seconds) if pieces.long else pieces.here(seconds)
            for seconds in (0.0, LONG * 2, LONG * 2, 0.0, 0.0)
        ]

    assert asyncio.run(run()) == [long, False, True, True, False]


def test_what_a_piece_raises_is_raised() -> None:
    def piece() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        asyncio.run(Pieces(piece).beside())
    with pytest.raises(KeyError):
        Pieces(piece).here()


def test_the_loop_goes_on_meanwhile() -> None:
    async def run() -> bool:
        there, here = threading.Event(), threading.Event()

        def work() -> bool:
            there.set()
            return here.wait(60)

        task = asyncio.ensure_future(beside(work))
        while not there.is_set():
            await asyncio.sleep(0.001)
        here.set()
        return await task

    assert asyncio.run(run())
