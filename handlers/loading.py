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
from core.tokenizer.decode_table import MERGES_NAME
from handlers.logs import write_line
from handlers.settings import Settings

_S3 = "s3://"
# Decoding needs the packed table only; the merges, most of a bundle's bytes, are read by the first text to encode.
_ENCODER_FILES = ("tokenizer.json", MERGES_NAME)


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
        self._encodes = encodes
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
                    model = load_model(self._files(), self._settings.model_options(), self._images)
                    if self._encodes:
                        _check_templates(model)
                    self._model = model
                    if self._settings.request_log == "all":
                        write_line("INFO", "model loaded", seconds=round(time.perf_counter() - began, 4))
        return self._model

    def _files(self) -> ModelFiles:
        files = self._files_at(self._settings.model)
        if self._settings.tokenizer is None:
            return files
        from core.bundle.other_tokenizer import OtherTokenizer  # late: few deployments have one

        return OtherTokenizer(files, self._files_at(self._settings.tokenizer))

    def _files_at(self, address: str) -> ModelFiles:
        if not address.startswith(_S3):
            return FolderFiles(Path(address))
        from core.bundle.s3 import S3Files, parse_address  # a local model does without

        store = Path(tempfile.gettempdir()) / f"derender-{os.getuid()}"
        later = self._later
        files = S3Files(parse_address(address), store, later=later)
        return files


def _check_templates(model: Model) -> None:
    from core.render.template_check import check_templates  # late: a process that only decodes has no use for it

    warning = check_templates(model.renderer)
    if warning is not None:
        write_line("WARNING", "configuration", reason=warning)
