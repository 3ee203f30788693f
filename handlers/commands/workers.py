"""Several server processes that share one address: one loads the model, then they are forked from it.

Each has a listening socket of its own on the same port, between which the
kernel distributes new connections (``SO_REUSEPORT``). The first process
answers nothing: it passes signals on, and forks a worker again that died.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

from core.errors import ConfigurationError
from handlers.network import Network, tcp_socket

# A worker that ends sooner than this did not serve; so many of them in a row end the server.
_SHORT_LIFE = 5.0
_MOST_FAILURES = 5


def reserve(network: Network) -> socket.socket:
    """A socket that holds an address for the workers and takes no connection.

    Raises:
        ConfigurationError: the address cannot be had.
    """
    try:
        return tcp_socket(network.host, network.port, socket.SO_REUSEPORT)
    except (OSError, AttributeError) as exc:  # SO_REUSEPORT is not everywhere
        raise ConfigurationError(f"cannot share {network.address} between workers: {exc}") from exc


class Workers:
    """The processes that serve.

    Parameters
    ----------
    held:
        The address, as :func:`reserve` holds it.
    count:
        How many there are.
    serve:
        Answers the connections of a bound socket until it is told to end; calls the second argument once it has
        forked what it forks.
    ended:
        Is told which process has ended.
    """

    def __init__(
        self,
        held: socket.socket,
        count: int,
        serve: Callable[[socket.socket, Callable[[], None]], None],
        ended: Callable[[int], None],
    ) -> None:
        self._ended = ended
        self._held = held
        self._count = count
        self._serve = serve
        self._started: dict[int, float] = {}
        self._ending = False
        # Held open by this process alone: its end tells the workers that nobody is left to end them.
        self._alive, self._life = os.pipe()

    def run(self) -> int:
        """Serve until a signal ends it; the exit status."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._pass_on)
        failures = 0
        for _ in range(self._count):
            self._start()
        while self._started:
            pid, _ = os.wait()
            self._ended(pid)
            lived = time.monotonic() - self._started.pop(pid, 0.0)
            if self._ending:
                continue
            failures = failures + 1 if lived < _SHORT_LIFE else 1
            if failures > _MOST_FAILURES:
                print("derender: workers end as soon as they begin", file=sys.stderr, flush=True)
                self._pass_on(signal.SIGTERM, None)
                continue
            print(f"derender: worker {pid} ended and is started again", file=sys.stderr, flush=True)
            self._start()
        return 1 if failures > _MOST_FAILURES else 0

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        self._ending = True
        for pid in self._started:
            os.kill(pid, number)

    def _start(self) -> None:
        # A signal that comes between the fork and its note would be passed to the others alone.
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT))
        pid = os.fork()
        if pid:
            self._started[pid] = time.monotonic()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM, signal.SIGINT))
            return
        status = 1
        try:
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM, signal.SIGINT))
            os.setpgid(0, 0)  # an interrupt from a terminal comes through the parent, and once
            os.close(self._life)
            self._serve(tcp_socket(*self._held.getsockname()[:2], socket.SO_REUSEPORT), self._watch)
            status = 0
        except BaseException as exc:
            print(f"derender: a worker failed: {exc!r}", file=sys.stderr, flush=True)
        finally:
            sys.stdout.flush()
            os._exit(status)  # the rest of the process is its parent's

    def _watch(self) -> None:
        threading.Thread(target=self._end_with_parent, name="parent", daemon=True).start()

    def _end_with_parent(self) -> None:
        os.read(self._alive, 1)
        os.kill(os.getpid(), signal.SIGTERM)
