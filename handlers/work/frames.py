"""What goes between a server and its work processes: Python objects, with the model standing for itself.

A frame is the number of its large buffers and the size of its pickle, then the
buffers' sizes and the pickle, then the buffers. Both sides are the same
program and trust each other; nothing of a client is ever unpickled.
"""

from __future__ import annotations

import io
import pickle
import socket
import struct
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from core.model import Model

# Bytes from this size on are sent beside the pickle, not copied into it.
LARGE = 64 * 1024
HEAD = struct.Struct("!IQ")
_SIZE = struct.Struct("!Q")
Part = bytes | memoryview | bytearray


def model() -> Model:
    """Stands for the model in a pickle; a reader puts its own in its place."""
    raise AssertionError("read by another than a _Reader")


class _Writer(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        # Called for objects alone, not for numbers, texts and lists.
        return (model, ()) if isinstance(value, Model) else NotImplemented


class _Reader(pickle.Unpickler):
    def __init__(self, data: Part, buffers: list[Part], here: Callable[[], Model]) -> None:
        super().__init__(io.BytesIO(data), buffers=buffers)
        self._here = here

    def find_class(self, module: str, name: str) -> Any:
        return self._here if (module, name) == (__name__, model.__name__) else super().find_class(module, name)


def apart(data: bytes) -> bytes | pickle.PickleBuffer:
    """Bytes of an object, marked where they are worth being sent beside it. They come out as some form of bytes."""
    return pickle.PickleBuffer(data) if len(data) >= LARGE else data


def write(value: Any) -> list[Part]:
    """The parts of a frame, in order."""
    buffers: list[pickle.PickleBuffer] = []
    target = io.BytesIO()
    _Writer(target, 5, buffer_callback=buffers.append).dump(value)
    views = [buffer.raw() for buffer in buffers]
    data = target.getvalue()
    sizes = b"".join(_SIZE.pack(view.nbytes) for view in views)
    return [HEAD.pack(len(views), len(data)) + sizes + data, *views]


@dataclass(frozen=True)
class Frame:
    """A frame that has come, not yet read."""

    data: Part
    buffers: list[Part]

    def load(self, here: Callable[[], Model]) -> Any:
        """The object; ``here`` gives the model of this process."""
        return _Reader(self.data, self.buffers, here).load()


def reading() -> Generator[int, bytearray, Frame]:
    """How a frame is read: yields how many bytes are wanted next, is sent them, and returns the frame.

    So that one side can wait for them and the other cannot.
    """
    count, length = HEAD.unpack((yield HEAD.size))
    sizes = _SIZE.iter_unpack((yield count * _SIZE.size)) if count else ()
    data = yield length
    buffers: list[Part] = []
    for (size,) in sizes:
        buffers.append((yield size))
    return Frame(data, buffers)


def receive(sock: socket.socket) -> Frame:
    """Wait for a frame.

    Raises:
        EOFError: the other side is gone.
    """
    steps = reading()
    wanted = next(steps)
    while True:
        try:
            wanted = steps.send(_exactly(sock, wanted))
        except StopIteration as end:
            frame: Frame = end.value
            return frame


def _exactly(sock: socket.socket, size: int) -> bytearray:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        taken = sock.recv_into(view)
        if not taken:
            raise EOFError
        view = view[taken:]
    return data
