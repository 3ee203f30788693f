"""Every recorded case of vLLM's server, through the application."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.images.recorded import RECORDED, Case, cases, decoded, differences

CASES = {case.id: case for model in RECORDED for case in cases(model)}
# Where the answer is another on purpose: the status and message here, and why (docs/compatibility.md has them, too).
_NOT_PUBLIC = "The URL must be from one of the allowed domains: []. Input URL domain: 127.0.0.1"
DEVIATIONS = {
    # Nothing is fetched from domains that are not listed, nor from private addresses at all.
    **{f"{model}.err_http": (400, _NOT_PUBLIC) for model in RECORDED if f"{model}.err_http" in CASES},
    # The server keeps nothing between requests.
    **{
        f"{model}.uuid_only_known": (400, "Cache miss for image at index 0 but data is not provided.")
        for model in ("qwen2.5-vl", "qwen3-vl")
    },
    # Videos are refused before they are looked at.
    **{
        f"{model}.err_video": (
            400,
            f"{model} takes images, audio and video, but this server handles text and images only",
        )
        for model in ("qwen2.5-vl", "qwen3-vl")
    },
}


def with_limit(response: Any) -> Any:
    """A recorded answer with the limit that vLLM leaves out and we always write (tests/golden/deviations.py)."""
    if "sampling_params" not in response:
        return response
    return {**response, "sampling_params": {"max_tokens": 16, **response["sampling_params"]}}


def render(client: TestClient, request: Any) -> tuple[int, Any]:
    response = client.post("/v1/chat/completions/render", json=request, headers={"accept-encoding": "identity"})
    return response.status_code, response.json()


@pytest.mark.parametrize("case", [case for name, case in CASES.items() if name not in DEVIATIONS], ids=lambda c: c.id)
def test_answered_as_recorded(case: Case, image_service: Callable[..., TestClient]) -> None:
    status, answer = render(image_service(case.model), case.request)
    assert status == case.status
    assert list(differences(with_limit(case.response), decoded(answer))) == []


@pytest.mark.parametrize("name", DEVIATIONS)
def test_deviates_as_documented(name: str, image_service: Callable[..., TestClient]) -> None:
    case = CASES[name]
    status, message = DEVIATIONS[name]
    answered, answer = render(image_service(case.model), case.request)
    assert (answered, answer["error"]["message"].removesuffix(" (parameter=image_url)")) == (status, message)
    assert (case.status, case.response.get("error", {}).get("message")) != (status, message)


@pytest.mark.parametrize("model", RECORDED)
def test_without_tensors_the_header_is_enough(model: str, image_service: Callable[..., TestClient]) -> None:
    """Hash and places of every recorded file, from an answer that decodes no pixel."""
    for case in cases(model):
        if case.status != 200 or not case.response["features"] or case.id in DEVIATIONS:
            continue
        status, answer = render(image_service(model), {**case.request, "mm_payload": "none"})
        expected = case.response["features"] | {"kwargs_data": None, "mm_metadata": None}
        assert (status, answer["features"]) == (200, expected), case.id
