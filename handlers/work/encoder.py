"""The fast encoder beside a server that answers: what proves that it may be used, and its loading.

A bundle's manifest brings its proof. For a plain model folder, and on another
kind of machine than the bundle's, a server makes the proof in a process beside
it and keeps the result for its next start; until then it encodes as ever.
"""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import orjson

from core.bundle.folder import ModelFiles
from core.bundle.store import ObjectStore
from core.errors import ConfigurationError, Unavailable
from core.model import Model
from core.tokenizer import FastTokenizer
from core.tokenizer.fast.load import use_fast_encoder
from core.tokenizer.fast.proof import Proof, dump_proof, load_proof
from handlers.loading import ModelLoader
from handlers.logs import write_line
from handlers.work.memory import give_back
from handlers.work.nursery import Nursery

# A proof is some hundred bytes.
_MOST_BYTES = 64 * 1024
_SECONDS_BETWEEN = 1.0
# What is started beside a server gives way to its requests.
_NICE = 10


class Beside:
    """Loads the encoder beside a server that answers, in a thread of its own.

    Parameters
    ----------
    loader:
        Has the model, now or later.
    nursery:
        Where the server's work processes come from, which get the encoder, too; ``loaded`` is called when they can.
        Its ``aside`` and ``within`` have to be :func:`prove_aside` and :func:`load_within`.
    """

    def __init__(self, loader: ModelLoader, nursery: Nursery | None, loaded: Callable[[], None]) -> None:
        self._loader = loader
        self._nursery = nursery
        self._loaded = loaded
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="encoder", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Nothing new is begun."""
        self._ended.set()

    def _run(self) -> None:
        with suppress(OSError):  # of this thread alone, on Linux
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
        try:
            model = self._model()
            if model is not None and isinstance(model.tokenizer, FastTokenizer):
                self._load(model.files, model.tokenizer)
        except ConfigurationError as exc:
            write_line("WARNING", "the fast encoder is not used", reason=str(exc))
        except (OSError, EOFError):
            pass  # the server ends

    def _model(self) -> Model | None:
        while not self._ended.is_set():
            with suppress(Unavailable):
                return self._loader.get()
            self._ended.wait(_SECONDS_BETWEEN)
        return None

    def _load(self, files: ModelFiles, tokenizer: FastTokenizer) -> None:
        began = time.perf_counter()
        proof = self._proof(files, tokenizer)
        if proof is None or self._ended.is_set():
            return
        give_back()  # of what reading the tokenizer took
        if self._nursery is not None and _asked(self._nursery.within(), orjson.dumps(dump_proof(proof))) == b"true":
            self._loaded()
        if use_fast_encoder(tokenizer, proof):
            give_back()
            write_line("INFO", "the fast encoder is loaded", seconds=round(time.perf_counter() - began, 1))

    def _proof(self, files: ModelFiles, tokenizer: FastTokenizer) -> Proof | None:
        """The bundle's proof, the one that was kept, or a new one; None where it says nothing, or there is none."""
        subject = tokenizer.subject
        bundled = _bundled(files)
        if bundled is not None and bundled.holds(subject):
            return bundled
        if self._nursery is None:
            return None
        # Several workers of one server want the same proof: one makes it.
        with _kept(subject) as place:
            if place is not None:
                with suppress(FileNotFoundError, ConfigurationError, orjson.JSONDecodeError):
                    kept = load_proof(orjson.loads(place.read_bytes()), str(place))
                    # One that does not hold is of other versions, or says that there is a difference.
                    if kept.is_of_here(subject):
                        return kept if kept.holds(subject) else None
            text = _asked(self._nursery.aside(), b"")
            value = orjson.loads(text)
            if value is None:
                return None
            made = load_proof(value, "the comparison")
            if place is not None:
                partial = place.with_suffix(f".{os.getpid()}")
                partial.write_bytes(text)
                partial.replace(place)
        if made.different:
            write_line("WARNING", "the fast encoder is not used", reason=f"{made.different} ids differ", **value)
        return made if made.holds(subject) else None


def prove_aside(loader: ModelLoader) -> Callable[[socket.socket], None]:
    """The life of a process that compares the encoders, and sends the proof, or null where there is none."""

    def work(sock: socket.socket) -> None:
        from core.tokenizer.fast.comparison import prove  # late: few servers have to

        with suppress(OSError):
            os.nice(_NICE)
        proof = prove(loader.get().tokenizer)
        sock.sendall(orjson.dumps(None if proof is None else dump_proof(proof)))

    return work


def load_within(loader: ModelLoader) -> Callable[[socket.socket], None]:
    """What a nursery does to have the encoder in all processes that it forks from then on: told the proof, it says
    whether it has it."""

    def work(sock: socket.socket) -> None:
        proof = load_proof(orjson.loads(_received(sock)), "the proof")
        tokenizer = loader.get().tokenizer
        if isinstance(tokenizer, FastTokenizer):
            tokenizer.load_merges()  # each process would do it for itself
        loaded = use_fast_encoder(tokenizer, proof)
        give_back()
        sock.sendall(orjson.dumps(loaded))

    return work


def _bundled(files: ModelFiles) -> Proof | None:
    """The proof of a bundle; None without one.

    Raises:
        ConfigurationError: it is malformed.
    """
    value = files.encoder_proof
    return None if value is None else load_proof(value, files.origin)


def _asked(sock: socket.socket, question: bytes) -> bytes:
    """What is said to a question until the other side ends.

    Raises:
        EOFError: nothing.
    """
    with sock:
        sock.setblocking(True)
        sock.sendall(question)
        sock.shutdown(socket.SHUT_WR)
        answer = _received(sock)
    if not answer:
        raise EOFError
    return answer


def _received(sock: socket.socket) -> bytes:
    data = b""
    while len(data) < _MOST_BYTES and (piece := sock.recv(_MOST_BYTES)):
        data += piece
    return data


@contextmanager
def _kept(subject: str) -> Iterator[Path | None]:
    """Where the proof of a tokenizer is kept, for this process alone as long as the block lasts; None for nowhere."""
    folder = Path(tempfile.gettempdir()) / f"derender-{os.getuid()}"
    try:
        ObjectStore(folder)  # checks that nobody else may write there
        lock = os.open(folder / f"encoder-{subject}.lock", os.O_CREAT | os.O_RDWR, 0o600)
    except OSError:
        yield None
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder / f"encoder-{subject}.json"
    finally:
        os.close(lock)
