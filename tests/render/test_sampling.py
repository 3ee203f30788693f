"""Sampling parameters: a request's own, the deployment's defaults, and limits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.errors import BadRequest, ConfigurationError
from core.render.chat import render_chat
from core.render.completions import render_completion
from tests.render.conftest import FolderOf, ModelOf, chat
from tests.support.models import load


def params(model: Any, **fields: Any) -> dict[str, Any]:
    found: dict[str, Any] = render_chat(model, chat(**fields))["sampling_params"]
    return found


def test_the_models_own_defaults(model_of: ModelOf) -> None:
    found = params(model_of("qwen3"))
    assert (found["temperature"], found["top_p"], found["top_k"]) == (0.6, 0.95, 20)
    assert params(model_of("qwen3"), temperature=0.9)["temperature"] == 0.9
    neutral = params(model_of("qwen3", generation_config="vllm"))
    assert (neutral["temperature"], neutral["top_p"], neutral.get("top_k")) == (1.0, 1.0, None)


def test_the_defaults_of_another_folder_limit_the_output_too(model_of: ModelOf, tmp_path: Path) -> None:
    values = {"temperature": 0.2, "max_new_tokens": 7, "eos_token_id": [5, 6], "skip_special_tokens": False}
    (tmp_path / "generation_config.json").write_text(json.dumps(values))
    model = model_of("qwen3", generation_config=str(tmp_path))
    found = params(model)
    assert (found["temperature"], found["max_tokens"], found["skip_special_tokens"]) == (0.2, 7, False)
    assert "top_k" not in found
    assert params(model, max_tokens=100)["max_tokens"] == 7
    assert params(model, max_tokens=3)["max_tokens"] == 3
    assert model.eos.every >= {5, 6}


def test_the_models_own_maximum_is_only_a_default(folder_of: FolderOf) -> None:
    folder = folder_of({"generation_config.json": json.dumps({"max_new_tokens": 7})})
    assert params(load(folder))["max_tokens"] == 7
    assert params(load(folder), max_tokens=100)["max_tokens"] == 100


def test_a_model_without_a_generation_configuration(folder_of: FolderOf, models_dir: Path) -> None:
    config = json.loads((models_dir / "qwen3" / "config.json").read_text())
    files = {"generation_config.json": None, "config.json": json.dumps({**config, "temperature": 0.3})}
    assert params(load(folder_of(files)))["temperature"] == 0.3


def test_a_folder_that_does_not_exist_stops_the_start(models_dir: Path) -> None:
    with pytest.raises(ConfigurationError, match="does not exist or is not a folder"):
        load(models_dir / "qwen3", generation_config="/nowhere")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"max_tokens": 5}, 5),
        ({"max_completion_tokens": 4, "max_tokens": 5}, 4),
        ({"max_tokens": 40960}, 40960 - 8),
    ],
)
def test_max_tokens(model_of: ModelOf, fields: dict[str, Any], expected: int) -> None:
    rendered = render_chat(model_of("qwen3"), chat("", **fields))
    assert rendered["sampling_params"]["max_tokens"] == expected
    assert len(rendered["token_ids"]) == 8


def test_completions_have_openais_default(model_of: ModelOf) -> None:
    # 16 is also vLLM's own default, and what equals a default is not written; but engines take its absence for more.
    (rendered,) = render_completion(model_of("qwen3"), {"prompt": "x", "max_tokens": None})
    assert rendered["sampling_params"]["max_tokens"] == 16
    assert render_chat(model_of("qwen3"), chat("", max_tokens=16))["sampling_params"]["max_tokens"] == 16


def test_nothing_left_for_the_output(model_of: ModelOf) -> None:
    with pytest.raises(BadRequest, match="max_tokens must be at least 1, got 0"):
        render_completion(model_of("qwen3", max_model_len=16), {"prompt": [1] * 16})


def test_more_sequences_than_the_deployment_allows(model_of: ModelOf) -> None:
    model = model_of("qwen3", max_n_sequences=2)
    assert params(model, n=2)["n"] == 2
    with pytest.raises(BadRequest, match="n must be at most 2, got 3"):
        params(model, n=3)
    with pytest.raises(BadRequest, match="n must be at most 16384, got 20000"):
        params(model_of("qwen3"), n=20000)


def test_internal_parameters_are_not_written(model_of: ModelOf) -> None:
    assert not [name for name in params(model_of("qwen3"), stop=["a"], bad_words=["b"]) if name.startswith("_")]


@pytest.mark.parametrize(
    "fields",
    [
        {"temperature": -1},
        {"temperature": 2.5},
        {"top_p": 0},
        {"min_p": 2},
        {"min_tokens": 9, "max_tokens": 3},
        {"logit_bias": {"x": 1}},
        {"stop": [""]},
        {"bad_words": [""]},
        {"vllm_xargs": {"a": 2**70}},
        {"kv_transfer_params": {"a": -(2**70)}},
        {"thinking_token_budget": -2},
        {"repetition_penalty": 0},
    ],
)
def test_values_out_of_range(model_of: ModelOf, fields: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        params(model_of("qwen3"), **fields)
