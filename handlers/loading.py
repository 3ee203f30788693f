"""Loading the deployment's model once, and again after a failure that may pass."""

from __future__ import annotations

import threading
from pathlib import Path

from core.bundle.folder import FolderFiles
from core.errors import Unavailable
from core.model import Model, load_model
from handlers.settings import Settings


class ModelLoader:
    """Holds the model of one process.

    A model or setting that cannot work raises at once (``ConfigurationError``)
    and stops the start. A source that is not reachable now is tried again by
    the next request, which until then is answered with a 503.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._model: Model | None = None
        self._lock = threading.Lock()

    def load(self) -> None:
        """Load now; leaves a passing failure to the first request.

        Raises:
            ConfigurationError: it can never work.
        """
        with self._lock:
            if self._model is None:
                files = FolderFiles(Path(self._settings.model))
                self._model = load_model(files, self._settings.model_options())

    def get(self) -> Model:
        """The model.

        Raises:
            Unavailable: it could not be loaded (yet).
        """
        if self._model is None:
            self.load()
        if self._model is None:
            raise Unavailable("the model is not loaded yet")
        return self._model
