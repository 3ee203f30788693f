"""Starting a server's work processes, before it has threads and connections."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from core.errors import Unavailable
from handlers.loading import ModelLoader
from handlers.settings import Settings
from handlers.web import FastAPI
from handlers.work.nursery import Nursery
from handlers.work.offload import Offloading
from handlers.work.pool import WorkPool
from handlers.work.tasks import Here
from handlers.work.worker import work


@contextmanager
def working(app: FastAPI, settings: Settings) -> Iterator[None]:
    """A server application has its work processes until the end of the block; none where the settings want none.

    The processes are forked: call it while the process has one thread.
    """
    if not settings.work_processes:
        yield
        return
    offloading: Offloading = app.state.offloading
    loader: ModelLoader = app.state.loader
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

    nursery = Nursery(prepare, lambda sock: work(sock, here, settings.work_deadline))
    pool = WorkPool(nursery, loader.get, settings.work_processes, settings.work_deadline, settings.work_queue)
    offloading.pool = pool
    app.state.elsewhere = offloading
    try:
        yield
    finally:
        pool.close()
