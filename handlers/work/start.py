"""Starting a server's work processes, before it has threads and connections."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from core.errors import Unavailable
from core.tokenizer.fast.encoder import is_installed
from handlers.loading import ModelLoader
from handlers.settings import Settings
from handlers.web import FastAPI
from handlers.work.encoder import Beside, load_within, prove_aside
from handlers.work.nursery import Nursery
from handlers.work.offload import Offloading
from handlers.work.pool import WorkPool
from handlers.work.tasks import Here
from handlers.work.worker import work


def _nothing() -> None:
    pass


@contextmanager
def working(app: FastAPI, settings: Settings) -> Iterator[None]:
    """A server application has its work processes until the end of the block; none where the settings want none.

    The processes are forked: call it while the process has one thread.
    """
    loader: ModelLoader = app.state.loader
    if not settings.work_processes:
        with _encoder(settings, loader):
            yield
        return
    offloading: Offloading = app.state.offloading
    here = Here(app, offloading.routes, loader.get, settings.max_body_bytes)

    def prepare() -> None:
        # Loaded once for all: what is not there now, each process would load for itself.
        with suppress(Unavailable):
            model = loader.get()
            _ = model.renderer
            if model.chat_parser is not None:
                model.chat_parser.why_replayed()
        gc.collect()
        gc.freeze()  # the collector would write to what is shared

    nursery = Nursery(
        prepare, lambda sock: work(sock, here, settings.work_deadline), prove_aside(loader), load_within(loader)
    )
    pool = WorkPool(nursery, loader.get, settings.work_processes, settings.work_deadline, settings.work_queue)
    offloading.pool = pool
    app.state.elsewhere = offloading
    try:
        with _encoder(settings, loader, nursery, pool.renew):
            yield
    finally:
        pool.close()


@contextmanager
def _encoder(
    settings: Settings, loader: ModelLoader, nursery: Nursery | None = None, loaded: Callable[[], None] = _nothing
) -> Iterator[None]:
    """The fast encoder is loaded beside what happens in the block, where the settings leave it to that."""
    if settings.fast_encoder != "auto" or not is_installed():
        yield
        return
    beside = Beside(loader, nursery, loaded)
    beside.start()
    try:
        yield
    finally:
        beside.end()
