"""Bearer keys: the relay's own, and the one it shows to the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import openai
import pytest

from core.errors import ConfigurationError
from handlers.settings import Settings, settings_from_environ
from tests.relay.conftest import MODEL, Setup, client_of

ASK: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": "Hello"}]}


@pytest.fixture(scope="module")
def guarded(start: Callable[..., Setup]) -> Setup:
    return start(engine_key="for-the-engine", engine_api_key="for-the-engine", api_key=("first", "second-ü"))


def test_a_key_opens(guarded: Setup) -> None:
    for key in ("first", "second-ü"):
        answer = httpx.post(
            f"{guarded.url}/v1/chat/completions",
            json=ASK,
            headers=[(b"authorization", f"Bearer {key}".encode())],
        )
        assert answer.status_code == 200
    assert client_of(guarded.url, "first").chat.completions.create(**ASK).choices


@pytest.mark.parametrize("key", ["", "wrong", "firs", "first x", "Bearer first", "for-the-engine"])
def test_no_other_key_does(guarded: Setup, key: str) -> None:
    before = len(guarded.engine.seen)
    with pytest.raises(openai.AuthenticationError, match="API key"):
        client_of(guarded.url, key or "none").chat.completions.create(**ASK)
    assert len(guarded.engine.seen) == before


@pytest.mark.parametrize(
    "path",
    [
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/models",
        "/v1/chat/completions/render",
        "/tokenize",
        "/openapi.json",
    ],
)
@pytest.mark.parametrize("headers", [{}, {"authorization": "first"}, {"authorization": "Basic first"}])
def test_everything_needs_one(guarded: Setup, path: str, headers: dict[str, str]) -> None:
    for method in ("GET", "POST"):
        answer = httpx.request(method, guarded.url + path, headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert set(answer.json()["error"]) == {"message", "type", "param", "code"}


def test_health_needs_none(guarded: Setup) -> None:
    for path in ("/health", "/ping", "/version"):
        assert httpx.get(guarded.url + path).status_code == 200


def test_an_engine_that_refuses_the_relays_key(start: Callable[..., Setup]) -> None:
    """The client's key is fine: it must not be told otherwise."""
    setup = start(engine_key="right", engine_api_key="wrong")
    with pytest.raises(openai.InternalServerError, match="refused the key of the relay") as refused:
        setup.client.chat.completions.create(**ASK)
    assert refused.value.status_code == 502


def test_keys_are_not_shown() -> None:
    settings = Settings(model="m", engine_url=("http://engine",), engine_api_key="secret-1", api_key=("secret-2",))
    assert "secret" not in repr(settings)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ENGINE_URL", "engine:8000"),
        ("ENGINE_URL", "ftp://engine"),
        ("ENGINE_URL", "http://"),
        ("ENGINE_URL", "http://engine:99999"),
        ("ENGINE_TIMEOUT", "0"),
        ("ENGINE_TIMEOUT", "nan"),
        ("ENGINE_TIMEOUT", "soon"),
        ("SSE_KEEP_ALIVE_INTERVAL", "-1"),
        ("SSE_KEEP_ALIVE_INTERVAL", "inf"),
        ("ENGINE_API_KEY", "schlüssel"),
    ],
)
def test_a_wrong_setting_names_its_variable(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=f"DERENDER_{name}"):
        settings_from_environ({"DERENDER_MODEL": "m", f"DERENDER_{name}": value})


def test_settings_of_the_relay() -> None:
    settings = settings_from_environ(
        {
            "DERENDER_MODEL": "m",
            "DERENDER_ENGINE_URL": "http://a:8000, https://b/prefix",
            "DERENDER_ENGINE_TIMEOUT": "2.5",
            "DERENDER_API_KEY": "one two",
        }
    )
    assert tuple(settings.engine_url) == ("http://a:8000", "https://b/prefix")
    assert (settings.engine_timeout, tuple(settings.api_key)) == (2.5, ("one", "two"))


def test_without_an_engine_there_is_no_relay(start: Callable[..., Setup], make_relay: Callable[..., Any]) -> None:
    from starlette.testclient import TestClient

    client = TestClient(make_relay())
    for path in ("/v1/chat/completions", "/v1/completions"):
        assert client.post(path, json=ASK).status_code == 404
