"""``/v1/models``: the served names, in the shape of vLLM's model list."""

from __future__ import annotations

import time
from typing import Any

from core.model import Model
from core.protocol.openai import random_id


def list_models(model: Model) -> dict[str, Any]:
    """One card for each served name."""
    return {"object": "list", "data": [_card(model, name) for name in model.options.served_names]}


def _card(model: Model, name: str) -> dict[str, Any]:
    created = int(time.time())
    permission = {
        "id": f"modelperm-{random_id()}",
        "object": "model_permission",
        "created": created,
        "allow_create_engine": False,
        "allow_sampling": True,
        "allow_logprobs": True,
        "allow_search_indices": False,
        "allow_view": True,
        "allow_fine_tuning": False,
        "organization": "*",
        "group": None,
        "is_blocking": False,
    }
    return {
        "id": name,
        "object": "model",
        "created": created,
        "owned_by": "vllm",
        # vLLM shows the folder or address that the model was loaded from, which is the operator's matter.
        "root": model.name,
        "parent": None,
        "max_model_len": model.limits.max_model_len,
        "permission": [permission],
    }
