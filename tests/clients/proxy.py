"""LiteLLM's proxy in front of the relays, a process of its own as its documents start it: each relay is a model there."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.clients.stage import Endpoints
from tests.support.servers import free_port, running

# It loads some hundred modules on a machine that may be busy.
START_SECONDS = 300
# LiteLLM's list of prices is its own copy, not one that it asks for at its start.
OFFLINE = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
# By the provider's name it decides which dialect it speaks to a model.
PROVIDERS = {"responses": "openai", "messages": "anthropic", "chat": "hosted_vllm"}


@contextmanager
def litellm_proxy(command: Path, relays: Endpoints, scratch: Path) -> Iterator[Endpoints]:
    """The proxy's models, as agents are told of them: ``responses/hermes-7`` is that relay, asked for Responses."""
    config = scratch / "config.yaml"
    # JSON is YAML.
    config.write_text(json.dumps({"model_list": [_model(way, relay) for way in PROVIDERS for relay in relays]}))
    port = free_port()
    environ = {**os.environ, **OFFLINE, "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true"}
    started = [command, "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
    with running(started, port, seconds=START_SECONDS, environ=environ, folder=scratch, health="/health/liveliness"):
        url = f"http://127.0.0.1:{port}/v1"
        yield [
            {**relay, "url": url, "model": f"{way}/{relay['name']}", "way": way}
            for way in PROVIDERS
            for relay in relays
        ]


def _model(way: str, relay: dict[str, str]) -> dict[str, object]:
    base = relay["url"].removesuffix("/v1") if way == "messages" else relay["url"]
    params = {"model": f"{PROVIDERS[way]}/{relay['model']}", "api_base": base, "api_key": "none", "max_retries": 0}
    return {"model_name": f"{way}/{relay['name']}", "litellm_params": params}
