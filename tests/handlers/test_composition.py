"""An application is what its routers are, and ends with what they hold."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from handlers.app import create_app
from handlers.derender_endpoints import DERENDER
from handlers.relay_endpoints import Relay, relay_router
from handlers.render_endpoints import RENDER
from handlers.routing import Router
from handlers.server import server_app
from handlers.settings import Settings
from infra.package.reach import reachable

ROOT = Path(__file__).parents[2]
WATCHED = {"/health", "/ping", "/v1/models", "/version", "/openapi.json"}
COUNTED = {"/metrics", "/load", "/ready"}


@pytest.fixture(scope="module")
def settings(models_dir: Path) -> Settings:
    return Settings(model=str(models_dir / "qwen3"), engine_url=("http://127.0.0.1:9",))


def paths(app: object) -> set[str]:
    return {route.path for route in app.routes}  # type: ignore[attr-defined]


def test_an_application_has_the_routes_of_its_routers(settings: Settings) -> None:
    relay = relay_router(settings)
    for router in (DERENDER, RENDER, relay):
        assert paths(create_app(settings, router)) == router.paths | WATCHED
    assert paths(server_app(settings)) == DERENDER.paths | RENDER.paths | relay.paths | WATCHED | COUNTED
    assert paths(create_app(settings)) == WATCHED


def test_without_an_engine_the_server_has_no_relay(models_dir: Path) -> None:
    app = server_app(Settings(model=str(models_dir / "qwen3")))
    assert paths(app) == DERENDER.paths | RENDER.paths | WATCHED | COUNTED


def test_a_count_is_of_the_prompt_that_the_server_sends(models_dir: Path) -> None:
    """A forced format empties the user's turn at render, and in the relay only where it is told to."""
    folder = str(models_dir / "qwen3")
    body = {"model": "m", "messages": [{"role": "user", "content": "one two three"}]}
    counts = {}
    for engines in ((), ("http://127.0.0.1:9",)):
        for prompts in (None, "vllm", "repaired"):
            settings = Settings(
                model=folder,
                served_model_name=("m",),
                chat_template_content_format="openai",
                engine_url=engines,
                prompts=prompts,
            )
            with TestClient(server_app(settings)) as client:
                answer = client.post("/v1/messages/count_tokens", json=body)
                counts[bool(engines), prompts] = answer.json()["input_tokens"]
    whole = counts[True, "repaired"]
    assert counts[False, "vllm"] == whole - 3
    lost = {(False, None), (False, "vllm"), (True, "vllm")}
    assert counts == {key: whole - 3 if key in lost else whole for key in counts}


def test_what_the_routers_hold_is_closed_when_the_server_ends(settings: Settings) -> None:
    closed = []

    async def close(name: str) -> None:
        closed.append(name)

    def router(name: str) -> Router:
        return Router(routes=(), encodes=False, close=lambda: close(name))

    with TestClient(create_app(settings, router("first"), RENDER, router("second"))) as client:
        assert client.get("/health").status_code == 200
        assert closed == []
    assert closed == ["second", "first"]


def test_the_relay_closes_its_connections(settings: Settings) -> None:
    relay = Relay(settings)
    router = Router(routes=(), encodes=True, close=relay.close)
    with TestClient(create_app(settings, router)):
        connections = relay.engines._http
        assert not connections.is_closed
    assert connections.is_closed
    assert relay_router(settings).close is not None


@pytest.mark.parametrize("entry", ["render", "derender", "relay"])
def test_an_entry_reaches_its_own_endpoints_and_no_others(entry: str) -> None:
    reached = reachable(f"handlers.{entry}", ROOT)
    assert {name for name in reached if name.endswith("_endpoints")} == {f"handlers.{entry}_endpoints"}
    assert "handlers.server" not in reached


def test_the_application_itself_names_no_endpoints() -> None:
    imported = {
        node.module
        for node in ast.walk(ast.parse((ROOT / "handlers" / "app.py").read_text()))
        if isinstance(node, ast.ImportFrom)
    }
    assert not any(str(name).endswith("_endpoints") for name in imported)
