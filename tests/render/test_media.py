"""Images, audio and video: refused with a clear answer, whatever the model and the form."""

from __future__ import annotations

import json
from typing import Any

import pytest

from core.errors import BadRequest
from core.render.chat import render_chat
from core.render.tokenize import tokenize
from tests.render.conftest import HARMONY, FolderOf, ModelOf, chat
from tests.support.models import load

PARTS: list[dict[str, Any]] = [
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
    {"type": "image_url", "image_url": {"url": "http://169.254.169.254/latest/meta-data"}},
    {"type": "input_image", "image_url": "http://host/x.png", "detail": "auto"},
    {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
    {"type": "audio_url", "audio_url": {"url": "http://host/x.wav"}},
    {"type": "video_url", "video_url": {"url": "file:///etc/passwd"}},
    {"type": "image_embeds", "image_embeds": "AAAA"},
    {"type": "image_pil", "image_pil": None},
    {"type": "prompt_embeds", "data": "AAAA"},
    {"image_url": "http://host/x.png", "uuid": "u"},
]


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("name", ["qwen3", "gpt-oss"])
def test_refused(model_of: ModelOf, part: dict[str, Any], name: str) -> None:
    model = model_of(name, **(HARMONY if name == "gpt-oss" else {}))
    body = chat([{"type": "text", "text": "What is it?"}, part])
    for refuse in (render_chat, tokenize):
        with pytest.raises(BadRequest) as caught:
            refuse(model, body)
        assert caught.value.message


def test_the_answer_names_the_model(model_of: ModelOf) -> None:
    for name, options in (("qwen3", {}), ("gpt-oss", HARMONY)):
        with pytest.raises(BadRequest) as caught:
            render_chat(model_of(name, **options), chat([PARTS[0]]))
        assert caught.value.message == f"{name} is not a multimodal model"


def test_a_model_that_takes_images_is_told_apart(folder_of: FolderOf) -> None:
    config = {"model_type": "qwen3_vl", "vision_config": {}, "text_config": {"max_position_embeddings": 4096}}
    model = load(folder_of({"config.json": json.dumps(config)}, "vision"))
    assert render_chat(model, chat("text only"))["token_ids"]
    with pytest.raises(BadRequest, match="this server handles text only"):
        render_chat(model, chat([PARTS[0]]))


@pytest.mark.parametrize("option", ["mm_processor_kwargs", "media_io_kwargs"])
def test_media_options_are_refused(model_of: ModelOf, option: str) -> None:
    with pytest.raises(BadRequest) as caught:
        render_chat(model_of("qwen3"), chat(**{option: {"image": {"a": 1}}}))
    assert caught.value.param == option
