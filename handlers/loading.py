"""Loading the deployment's model once, and again after a failure that may pass."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Collection
from pathlib import Path

from core.bundle.folder import FolderFiles, ModelFiles
from core.errors import Unavailable
from core.model import ImagesOf, Model, load_model
from handlers.logs import write_line
from handlers.settings import Settings

_S3 = "s3://"
# Decoding needs the packed table only; the merges, most of a bundle's bytes, are read by the first text to encode.
_ENCODER_FILES = ("tokenizer.json",)


class ModelLoader:
    """Holds the model of one process.

    A model or setting that cannot work raises at once (``ConfigurationError``)
    and stops the start. A source that is not reachable now is tried again by
    the next request, which until then is answered with a 503.

    ``encodes`` says whether this process turns text into tokens as a rule;
    ``images`` builds what reads the model's images, where images are read.
    """

    def __init__(self, settings: Settings, encodes: bool = True, images: ImagesOf | None = None) -> None:
        # One text at a time needs no threads, and a pool of threads does not survive a snapshot or a fork.
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        self._settings = settings
        self._images = images
        self._later: Collection[str] = () if encodes else _ENCODER_FILES
        self._model: Model | None = None
        self._lock = threading.Lock()

    def load(self) -> None:
        """Load now; leaves a passing failure to the first request.

        Raises:
            ConfigurationError: it can never work.
        """
        try:
            self.get()
        except Unavailable as exc:
            write_line("ERROR", "the model is not loaded", reason=exc.reason or exc.message)

    def get(self) -> Model:
        """The model.

        Raises:
            Unavailable: it could not be loaded (yet).
        """
        if self._model is None:
            with self._lock:
                if self._model is None:
                    began = time.perf_counter()
                    self._model = load_model(self._files(), self._settings.model_options(), self._images)
                    if self._settings.request_log == "all":
                        write_line("INFO", "model loaded", seconds=round(time.perf_counter() - began, 4))
        return self._model

    def _files(self) -> ModelFiles:
        if not self._settings.model.startswith(_S3):
            return FolderFiles(Path(self._settings.model))
        from core.bundle.s3 import S3Files, parse_address  # a local model does without

        store = Path(tempfile.gettempdir()) / f"derender-{os.getuid()}"
        later = self._later
        files = S3Files(parse_address(self._settings.model), store, later=later)
        return files
