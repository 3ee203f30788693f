"""The three ways to give an engine images, and what the scripted engine says to them."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from starlette.testclient import TestClient

from core.dialects import DIALECTS
from handlers.server import server_app
from handlers.settings import Settings
from tests.engine.requests import GenerateRequest
from tests.images.recorded import MODELS, data_url

RENDER = "/v1/chat/completions/render"
PNG = data_url("png_28x28")


def chat(*urls: str, **fields: Any) -> dict[str, Any]:
    parts: list[Any] = []
    for url in urls:
        parts += [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "and"}]
    return {"messages": [{"role": "user", "content": parts}], "max_tokens": 4, **fields}


def ask(client: TestClient, body: Any, path: str = RENDER, **headers: str) -> Any:
    response = client.post(path, json=body, headers={"accept-encoding": "identity", **headers})
    assert response.status_code == 200, response.text
    return response.json()


@pytest.mark.parametrize("model", MODELS)
def test_an_engine_takes_features_and_content_parts(model: str, image_service: Callable[..., TestClient]) -> None:
    client = image_service(model)
    body = chat(PNG, data_url("jpg_exif3"), PNG)
    features = ask(client, body)
    parts = ask(client, {**body, "mm_payload": "content_parts"})
    assert GenerateRequest.model_validate(features).features is not None
    assert GenerateRequest.model_validate(parts).content_parts == [
        {"type": "image_url", "url": url} for url in (PNG, data_url("jpg_exif3"), PNG)
    ]
    assert parts["features"] is None
    expanded = sum(place["length"] for place in features["features"]["mm_placeholders"]["image"])
    assert len(parts["token_ids"]) < len(features["token_ids"]) - expanded + 10


@pytest.mark.parametrize("change", ["hash", "place", "beyond", "overlap", "data", "bytes", "both"])
def test_the_engine_checks_what_it_is_given(change: str, image_service: Callable[..., TestClient]) -> None:
    request = copy.deepcopy(ask(image_service("qwen2.5-vl"), chat(PNG, PNG)))
    features = request["features"]
    match change:
        case "hash":
            features["mm_hashes"]["image"].pop()
        case "place":
            features["mm_placeholders"]["image"].pop()
        case "beyond":
            features["mm_placeholders"]["image"][1]["offset"] = len(request["token_ids"]) - 1
        case "overlap":
            features["mm_placeholders"]["image"][1]["offset"] = features["mm_placeholders"]["image"][0]["offset"] + 1
        case "data":
            features["kwargs_data"]["image"].pop()
        case "bytes":
            features["kwargs_data"]["image"][0] = features["mm_metadata"]["image"][0][:-8]
        case "both":
            request["content_parts"] = [{"type": "image_url", "url": PNG}]
    with pytest.raises(ValidationError):
        GenerateRequest.model_validate(request)


def test_max_tokens_counts_the_images(image_service: Callable[..., TestClient]) -> None:
    """Without a limit of the request the output has what the expanded prompt leaves, also where ids are not expanded."""
    body = {key: value for key, value in chat(data_url("jpg_640x480")).items() if key != "max_tokens"}
    whole = ask(image_service("qwen2.5-vl"), {**body, "mm_payload": "none"})
    parts = ask(image_service("qwen2.5-vl"), {**body, "mm_payload": "content_parts"})
    assert whole["sampling_params"]["max_tokens"] == parts["sampling_params"]["max_tokens"]
    assert whole["sampling_params"]["max_tokens"] + len(whole["token_ids"]) == 131072


def test_a_prompt_that_is_too_long_with_its_images(image_service: Callable[..., TestClient]) -> None:
    client = image_service("qwen2.5-vl", max_model_len=300)
    for payload in ("tensors", "none", "content_parts"):
        response = client.post(RENDER, json=chat(data_url("jpg_640x480"), mm_payload=payload))
        assert response.status_code == 400
        assert "300" in response.json()["error"]["message"]


def test_content_parts_by_setting(image_service: Callable[..., TestClient]) -> None:
    body = chat(PNG, mm_payload="content_parts")
    assert image_service("qwen2.5-vl", content_parts="never").post(RENDER, json=body).status_code == 400
    always = image_service("qwen2.5-vl", content_parts="always")
    assert ask(always, chat(PNG))["content_parts"] == [{"type": "image_url", "url": PNG}]
    assert ask(always, chat(PNG, mm_payload="none"))["features"]["kwargs_data"] is None


def test_uuids(image_service: Callable[..., TestClient]) -> None:
    body = chat(PNG)
    body["messages"][0]["content"][0]["uuid"] = "mine"
    assert ask(image_service("qwen2.5-vl"), body)["features"]["mm_hashes"] == {"image": ["mine"]}
    parts = ask(image_service("qwen2.5-vl"), {**body, "mm_payload": "content_parts"})["content_parts"]
    assert parts == [{"type": "image_url", "url": PNG, "uuid": "mine"}]
    refused = image_service("qwen2.5-vl", refuse_media_uuids=True).post(RENDER, json=body)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "uuid")


def test_the_relay_gives_the_engine_images_as_they_came(image_service: Callable[..., TestClient]) -> None:
    client = image_service("qwen2.5-vl")
    model = client.app.state.loader.get()  # type: ignore[attr-defined]
    dialect = next(dialect for dialect in DIALECTS if dialect.name == "chat")
    opened = dialect.relaying().open_request(model, chat(PNG))
    (prompt,) = opened.prompts
    assert prompt["content_parts"] == [{"type": "image_url", "url": PNG}]
    assert prompt["features"] is None
    assert opened.prompt_tokens == len(ask(client, chat(PNG))["token_ids"])
    assert GenerateRequest.model_validate(prompt)


def test_images_in_messages_and_in_the_history(image_service: Callable[..., TestClient]) -> None:
    source = {"type": "base64", "media_type": "image/png", "data": PNG.split(",")[1]}
    body = {
        "model": "qwen2.5-vl",
        "max_tokens": 4,
        "messages": [
            {"role": "user", "content": [{"type": "image", "source": source}, {"type": "text", "text": "what?"}]},
            {"role": "assistant", "content": "A picture."},
            {"role": "user", "content": [{"type": "image", "source": source}]},
        ],
    }
    answer = ask(image_service("qwen2.5-vl"), body, "/v1/messages/render")
    assert len(answer["features"]["mm_hashes"]["image"]) == 2


def test_images_in_responses_are_those_of_a_chat(image_service: Callable[..., TestClient]) -> None:
    client = image_service("qwen2.5-vl")
    content = [{"type": "input_image", "image_url": PNG}, {"type": "input_text", "text": "and"}]
    body = {"input": [{"role": "user", "content": content}], "max_output_tokens": 4}
    for payload in ("tensors", "none", "content_parts"):
        response = ask(client, {**body, "mm_payload": payload}, "/v1/responses/render")
        as_chat = ask(client, chat(PNG, mm_payload=payload))
        assert {name: response.get(name) for name in ("token_ids", "features", "content_parts")} == {
            name: as_chat.get(name) for name in ("token_ids", "features", "content_parts")
        }


def test_tokenize_counts_images(image_service: Callable[..., TestClient]) -> None:
    client = image_service("qwen2.5-vl")
    body = {"messages": chat(PNG)["messages"]}
    assert ask(client, body, "/tokenize")["tokens"] == ask(client, chat(PNG))["token_ids"]


def test_answers_too_large_for_lambda(image_service: Callable[..., TestClient]) -> None:
    """Refused before a pixel is made; the answer names what can be asked for instead."""
    client = image_service("qwen2.5-vl", max_response_bytes=6_291_556)
    large = chat(data_url("jpg_1024x1024"))
    refused = client.post(RENDER, json=large, headers={"accept-encoding": "identity"})
    assert refused.status_code == 413
    message = refused.json()["error"]["message"]
    assert '"none"' in message
    assert '"content_parts"' in message
    for payload in ("none", "content_parts"):
        assert client.post(RENDER, json={**large, "mm_payload": payload}).status_code == 200


def test_gzip_where_it_is_accepted(image_service: Callable[..., TestClient]) -> None:
    client = image_service("qwen2.5-vl")
    body = chat(data_url("jpg_640x480"))
    response = client.post(RENDER, json=body, headers={"accept-encoding": "br, gzip;q=0.5"})
    assert response.headers["content-encoding"] == "gzip"
    plain = client.post(RENDER, json=body, headers={"accept-encoding": "gzip;q=0, identity"})
    assert "content-encoding" not in plain.headers
    assert int(plain.headers["content-length"]) == len(plain.content)
    assert response.json()["features"] == plain.json()["features"]


def test_images_of_an_unknown_family_are_passed_on(image_models: Path, tmp_path: Path) -> None:
    """The rules of their tokens are the engine's alone: nothing but the ids as written, and the images."""
    folder = tmp_path / "unknown"
    shutil.copytree(image_models / "qwen2.5-vl", folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "architectures": ["SomeOtherVisionModel"]}))

    def service(**settings: Any) -> TestClient:
        return TestClient(server_app(Settings(model=str(folder), served_model_name=("m",), **settings)))

    parts = ask(service(), chat(PNG, PNG, mm_payload="content_parts"))
    assert parts["content_parts"] == [{"type": "image_url", "url": PNG}] * 2
    assert parts["token_ids"].count(151655) == 2
    assert ask(service(content_parts="always"), chat(PNG))["content_parts"] == [{"type": "image_url", "url": PNG}]
    for payload in ("tensors", "none"):
        refused = service().post(RENDER, json=chat(PNG, mm_payload=payload))
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "mm_payload")
        assert '"content_parts"' in refused.json()["error"]["message"]
    assert service(content_parts="never").post(RENDER, json=chat(PNG)).status_code == 400
    broken = service().post(RENDER, json=chat("data:image/png;base64,aGVsbG8=", mm_payload="content_parts"))
    assert broken.status_code == 400
