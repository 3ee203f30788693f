"""What a client says to the engine, and to other tenants' caches: it passes only where the deployment says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from core.errors import ConfigurationError
from handlers.settings import Settings
from tests.relay.conftest import MODEL, Setup

ASK: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}
COMPLETE: dict[str, Any] = {"model": MODEL, "prompt": "Hello", "max_tokens": 4}
FIELDS: dict[str, Any] = {
    "kv_transfer_params": {"do_remote_prefill": True, "remote_host": "10.0.0.1", "remote_port": 1},
    "ec_transfer_params": {"remote_host": "10.0.0.1"},
    "priority": -5,
    "cache_salt": "another tenant's",
    "vllm_xargs": {"plugin": "x"},
}


@pytest.fixture(scope="module")
def closed(start: Callable[..., Setup]) -> Setup:
    return start()


@pytest.mark.parametrize("name", FIELDS)
def test_nothing_passes_by_default(closed: Setup, name: str) -> None:
    before = len(closed.engine.seen)
    for path, body in (("/v1/chat/completions", ASK), ("/v1/completions", COMPLETE)):
        answer = httpx.post(closed.url + path, json={**body, name: FIELDS[name]})
        assert answer.status_code == 400
        error = answer.json()["error"]
        assert error["param"] == name
        assert "engine_params" in error["message"]
    assert len(closed.engine.seen) == before


def test_values_that_say_nothing_are_no_fault(closed: Setup) -> None:
    body = {**ASK, "priority": 0, "cache_salt": None, "kv_transfer_params": None, "vllm_xargs": None}
    assert httpx.post(f"{closed.url}/v1/chat/completions", json=body).status_code == 200


@pytest.mark.parametrize("name", ["priority", "cache_salt", "vllm_xargs"])
def test_what_is_allowed_passes_and_nothing_else(start: Callable[..., Setup], name: str) -> None:
    setup = start(engine_params=(name,))
    assert httpx.post(f"{setup.url}/v1/chat/completions", json={**ASK, name: FIELDS[name]}).status_code == 200
    seen = setup.engine.seen[-1]
    assert (seen["sampling_params"]["extra_args"] if name == "vllm_xargs" else seen[name]) == FIELDS[name]
    for other in FIELDS.keys() - {name}:
        body = {**ASK, name: FIELDS[name], other: FIELDS[other]}
        assert httpx.post(f"{setup.url}/v1/chat/completions", json=body).status_code == 400


def test_salts_of_different_keys_are_different(start: Callable[..., Setup]) -> None:
    setup = start(engine_params=("cache_salt",), api_key=("first", "second"))

    def salt(key: str, given: str) -> str:
        headers = {"authorization": f"Bearer {key}"}
        answer = httpx.post(f"{setup.url}/v1/chat/completions", json={**ASK, "cache_salt": given}, headers=headers)
        assert answer.status_code == 200
        sent: str = setup.engine.seen[-1]["cache_salt"]
        return sent

    assert salt("first", "a") == salt("first", "a")
    assert len({salt("first", "a"), salt("second", "a"), salt("first", "b"), "a"}) == 4


def test_a_field_that_there_is_not() -> None:
    with pytest.raises(ConfigurationError, match="DERENDER_ENGINE_PARAMS"):
        Settings(model="m", engine_params=("seed",))
