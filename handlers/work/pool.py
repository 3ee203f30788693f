"""A server's jobs: who does them, who waits, and what becomes of those that take too long."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any

from core.errors import BadRequest, Overloaded, RequestError, Unavailable
from core.model import Model
from handlers.logs import ReportedFault, write_line
from handlers.work import frames
from handlers.work.line import Lines
from handlers.work.nursery import Nursery
from handlers.work.worker import Reply

# A process that ends by itself so soon was hardly ended by its job: another one gets it.
_AGAIN_WITHIN = 1.0
# How many times its CPU time a job may take by the clock, since a machine has other things to do; and seconds besides.
_CLOCK_FACTOR, _CLOCK_MORE = 4.0, 10.0
_ENDED = "the process that worked on the request ended; try again"


class WorkPool:
    """The jobs of one server.

    Parameters
    ----------
    nursery:
        Where its processes come from.
    model:
        The model of the server, for what comes back.
    processes:
        How many jobs are done at a time.
    deadline:
        Seconds of CPU time that a job may take; 0 for any.
    most_waiting:
        How many jobs may wait beside.
    """

    def __init__(
        self, nursery: Nursery, model: Callable[[], Model], processes: int, deadline: float, most_waiting: int
    ) -> None:
        self._nursery = nursery
        self._model = model
        self._deadline = deadline
        self._missing = processes
        self._generation = 0
        self._idle: list[_Process] = []
        self._waiting: Lines[asyncio.Future[_Process]] = Lines(most_waiting)
        self._fill()

    @property
    def waiting(self) -> int:
        """Jobs that wait."""
        return len(self._waiting)

    def check(self) -> None:
        """See that there are processes.

        Raises:
            Unavailable: there are none, and none can be had: the server must be started again.
        """
        if self._missing:
            self._fill()
        if self._missing:
            raise Unavailable("the server cannot work", reason="there are no work processes")

    def renew(self) -> None:
        """Have every process replaced once it has done another job. May be called by any thread."""
        self._generation += 1

    async def call(
        self, function: Callable[..., Any], *arguments: Any, apart: bool = False, caller: Hashable = None
    ) -> Any:
        """What ``function`` returns in a work process, given what it finds there and ``arguments``.

        It is known there by its name. With ``apart`` the arguments are large: they are packed beside the loop.
        Callers wait in turn.

        Raises:
            RequestError: what it raises; or the queue is full, the job took too long, or its process ended.
            ReportedFault: it raised anything else.
        """
        job = (function, arguments)
        parts = await asyncio.to_thread(frames.write, job) if apart else frames.write(job)
        del job, arguments
        try:
            return await self._done(parts, caller, last=False)
        except _Ended:
            write_line("ERROR", "a work process ended")
        try:
            return await self._done(parts, caller, last=True)
        except _Ended:
            raise Overloaded(_ENDED) from None

    async def _done(self, parts: list[frames.Part], caller: Hashable, last: bool) -> Any:
        process = await self._take(caller)
        clock = asyncio.get_running_loop().time
        began = clock()
        most = self._deadline * _CLOCK_FACTOR + _CLOCK_MORE if self._deadline else None
        reply: Reply | None = None
        try:
            async with asyncio.timeout(most):
                frame = await process.exchange(parts)
            reply = frame.load(self._model)
        except (EOFError, ConnectionError):
            took = clock() - began
            if self._deadline and took >= self._deadline:
                raise self._too_long() from None
            if last or took > _AGAIN_WITHIN:
                write_line("ERROR", "a work process ended", seconds=round(took, 3))
                raise Overloaded(_ENDED) from None
            raise _Ended from None
        except TimeoutError:
            raise self._too_long() from None
        finally:
            # A client that went away has ended its job, too.
            if reply is None or reply.last or process.generation != self._generation:
                self._replace(process)
            else:
                self._give(process)
        return _result(reply)

    def _too_long(self) -> BadRequest:
        return BadRequest(
            f"the request took longer than the work_deadline of {self._deadline:g} seconds; send less in one call"
        )

    async def _take(self, caller: Hashable) -> _Process:
        if self._missing:
            self._fill()
        if self._idle:
            return self._idle.pop()
        if self._missing and not self._waiting:
            raise Overloaded("the server cannot work now")
        turn: asyncio.Future[_Process] = asyncio.get_running_loop().create_future()
        leaves = self._waiting.join(caller, turn)
        if leaves is not None and not leaves.done():
            leaves.set_exception(Overloaded("too many requests wait already, the server's work_queue; try again"))
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._give(turn.result())
            raise
        finally:
            self._waiting.leave(caller, turn)

    def _give(self, process: _Process) -> None:
        while self._waiting:
            turn = self._waiting.next()
            if not turn.done():
                turn.set_result(process)
                return
        self._idle.append(process)

    def _replace(self, process: _Process) -> None:
        process.end()
        self._missing += 1
        self._fill()

    def _fill(self) -> None:
        while self._missing:
            try:
                process = _Process(self._nursery.new(), self._generation)
            except OSError as exc:
                write_line("ERROR", "no work process can be had", reason=type(exc).__name__)
                return
            self._missing -= 1
            self._give(process)

    def close(self) -> None:
        """End all processes."""
        for process in self._idle:
            process.close()
        self._nursery.close()


class _Ended(Exception):
    """A process ended before it can have done much."""


class _Process:
    """One process, seen from the server: its end of the socket, over which it first says its id."""

    def __init__(self, sock: socket.socket, generation: int) -> None:
        self.generation = generation
        self._sock = sock
        self._pid: int | None = None

    async def exchange(self, parts: list[frames.Part]) -> frames.Frame:
        """Send a job and wait for its reply.

        Raises:
            EOFError, ConnectionError: the process ended.
        """
        loop = asyncio.get_running_loop()
        if self._pid is None:
            self._pid = int.from_bytes(await self._exactly(8), "big")
        for part in parts:
            await loop.sock_sendall(self._sock, part)
        steps = frames.reading()
        wanted = next(steps)
        while True:
            try:
                wanted = steps.send(await self._exactly(wanted))
            except StopIteration as end:
                frame: frames.Frame = end.value
                return frame

    async def _exactly(self, size: int) -> bytearray:
        loop = asyncio.get_running_loop()
        data = bytearray(size)
        view = memoryview(data)
        while view:
            taken = await loop.sock_recv_into(self._sock, view)
            if not taken:
                raise EOFError
            view = view[taken:]
        return data

    def end(self) -> None:
        """End the process, whatever it does."""
        if self._pid is None:
            with suppress(OSError):
                self._pid = int.from_bytes(self._sock.recv(8), "big") or None
        # Its own end of the socket is open while it lives, so that the id is still its own.
        if self._pid is not None and not self._is_closed():
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
        self.close()

    def _is_closed(self) -> bool:
        try:
            return self._sock.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def close(self) -> None:
        self._sock.close()


def _result(reply: Reply) -> Any:
    fault = None if reply.fault is None else ReportedFault(*reply.fault)
    if reply.refused is not None:
        refused: RequestError = reply.refused
        raise refused from fault
    if fault is not None:
        raise fault
    return reply.result
