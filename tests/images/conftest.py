"""Model folders and applications that read images."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from handlers.server import server_app
from handlers.settings import Settings
from tests.images.recorded import MODELS, RECORDED, build_model, cases


@pytest.fixture(scope="session")
def image_models(models_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the recorded model folders, by their names."""
    folder = tmp_path_factory.mktemp("image-models")
    for name in MODELS:
        build_model(name, models_dir / "qwen3", folder)
    return folder


@pytest.fixture(scope="session")
def image_service(image_models: Path) -> Callable[..., TestClient]:
    """A client of a service for one recorded model; further arguments are settings."""
    clients: dict[Any, TestClient] = {}

    def client(name: str, **settings: Any) -> TestClient:
        key = (name, *sorted(settings.items()))
        if key not in clients:
            settings = {
                "served_model_name": (name,),
                "media_model_id": cases(name)[0].model_id if name in RECORDED else name,
                **settings,
            }
            clients[key] = TestClient(server_app(Settings(model=str(image_models / name), **settings)))
        return clients[key]

    return client
