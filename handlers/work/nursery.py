"""A process that only forks others.

It is forked from the server before that has threads or connections, and holds
the loaded model, which its children share (pages are copied when they are
written). So a work process can be replaced at any time, which forking a
running server cannot do safely. When the server is gone, so are they all.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import NoReturn

_NEW, _ASIDE, _WITHIN = b"n", b"a", b"w"
Work = Callable[[socket.socket], None]


def _nothing(_: socket.socket) -> None:
    """Says nothing: the other end of the socket closes."""


class Nursery:
    """The server's side: where new processes come from.

    Parameters
    ----------
    prepare:
        What is done once, in the nursery, before the first process.
    work:
        The life of a process, given its end of a socket; it ends when it returns.
    aside:
        The life of another kind of process.
    within:
        What the nursery itself can be asked to do, given an end of a socket, too. It forks nobody meanwhile; who is
        forked later has what came of it.
    """

    def __init__(
        self, prepare: Callable[[], None], work: Work, aside: Work = _nothing, within: Work = _nothing
    ) -> None:
        self._control, theirs = socket.socketpair()
        self.pid = os.fork()
        if not self.pid:
            self._control.close()
            _leave(lambda: _run(theirs, prepare, {_NEW: work, _ASIDE: aside}, within))
        theirs.close()

    def new(self) -> socket.socket:
        """The end of a socket whose other end a new process has, or will have in a moment.

        Raises:
            OSError: the nursery is gone.
        """
        return self._ask(_NEW)

    def aside(self) -> socket.socket:
        """As :meth:`new`, of a process of the other kind."""
        return self._ask(_ASIDE)

    def within(self) -> socket.socket:
        """The end of a socket whose other end the nursery itself works with; raises as :meth:`new` does."""
        return self._ask(_WITHIN)

    def _ask(self, what: bytes) -> socket.socket:
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                socket.send_fds(self._control, [what], [theirs.fileno()])
            except OSError:
                ours.close()
                raise
        ours.setblocking(False)
        return ours

    def close(self) -> None:
        """End all processes, and wait for the nursery's own end."""
        self._control.close()
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


def _leave(run: Callable[[], None]) -> NoReturn:
    """Run in a forked process, and end it without what belongs to the process that it was forked from."""
    status = 1
    try:
        run()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(status)


def _run(control: socket.socket, prepare: Callable[[], None], lives: Mapping[bytes, Work], within: Work) -> None:
    # Signals of a terminal or a supervisor reach all processes; it is the server that ends the others.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    prepare()
    children: set[int] = set()

    def reap(*_: object) -> None:
        with suppress(ChildProcessError):
            while (pid := os.waitpid(-1, os.WNOHANG)[0]) != 0:
                children.discard(pid)

    signal.signal(signal.SIGCHLD, reap)
    while True:
        said, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not said:
            break
        sock = socket.socket(fileno=descriptors[0])
        if said == _WITHIN:
            with sock, suppress(Exception):
                within(sock)
            continue
        # A child that ends at once must not be reaped before it is known.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        try:
            pid = os.fork()
        except OSError:  # no room for another: the server sees the socket close
            pid = -1
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
            control.close()
            _leave(partial(lives[said], sock))
        sock.close()
        if pid > 0:
            children.add(pid)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    for pid in children:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
