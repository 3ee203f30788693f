"""The requests of vLLM's own HTTP tests for Messages and Responses, sent to a ``derender serve`` process.

They are seven of ``tests/entrypoints/scale_out/render/test_render.py`` in its
source, by their names there; what they ask for is said again here. Theirs run
a tiny Llama; the model here has a tokenizer and a template of that kind.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.servers import free_port, running

MODEL = "tiny-llama"
BOS = 1
# As a Llama's: a system message comes first, or not at all.
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}"
    "{% if m.role == 'system' and not loop.first %}{{ raise_exception('The system message comes first.') }}{% endif %}"
    "[{{ m.role }}]{{ m.content }}{% endfor %}"
)
SYSTEM = "You are a helpful assistant."
TURNS = [
    {"role": "user", "content": "Hello"},
    {"role": "assistant", "content": "Hi! How can I help?"},
    {"role": "user", "content": "What is 2 + 2?"},
]
Ask = Callable[..., httpx.Response]
pytestmark = pytest.mark.xdist_group("vllm-requests")


@pytest.fixture(scope="module")
def address(models_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("model")
    for file in (models_dir / "mistral-spm").iterdir():
        (folder / file.name).symlink_to(file)
    (folder / "chat_template.jinja").unlink()
    (folder / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    port = free_port()
    command = [sys.executable, "-m", "handlers.commands", "serve", str(folder)]
    command += ["--served-model-name", MODEL, "--trust-request-chat-template", "--port", str(port)]
    with running(command, port):
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def ask(address: str) -> Iterator[Ask]:
    with httpx.Client(base_url=address, timeout=60) as client:

        def sent(dialect: str, **body: Any) -> httpx.Response:
            needed = {"max_tokens": 16} if dialect == "messages" else {}
            return client.post(f"/v1/{dialect}/render", json={"model": MODEL, **needed, **body})

        yield sent


def ids_of(response: httpx.Response) -> list[int]:
    assert response.status_code == 200, response.text
    ids: list[int] = response.json()["token_ids"]
    assert ids
    assert all(type(token_id) is int for token_id in ids)
    return ids


def test_responses_render_basic(ask: Ask) -> None:
    response = ask("responses", input="When should a handler give an empty text?", max_output_tokens=7)
    assert ids_of(response)
    rendered = response.json()
    assert rendered["model"] == MODEL
    assert rendered["request_id"].startswith("resp_")
    assert rendered["sampling_params"]["max_tokens"] == 7


def test_responses_render_includes_prior_input_items(ask: Ask) -> None:
    last = {"role": "user", "content": "Which color was it?"}
    earlier = [{"role": "user", "content": "Keep cobalt in mind."}, {"role": "assistant", "content": "I will."}]
    assert len(ids_of(ask("responses", input=[*earlier, last]))) > len(ids_of(ask("responses", input=[last])))


def test_responses_render_rejects_previous_response_id_over_http(ask: Ask) -> None:
    response = ask("responses", input="Go on.", previous_response_id="resp_previous")
    assert response.status_code == 400
    error = response.json()["error"]
    assert (error["type"], error["param"]) == ("invalid_request_error", "previous_response_id")


def test_messages_render_basic(ask: Ask) -> None:
    response = ask("messages", messages=TURNS[:1])
    assert ids_of(response)[0] == BOS
    assert response.json()["model"] == MODEL
    assert "sampling_params" in response.json()


def test_messages_render_system_and_multi_turn(ask: Ask) -> None:
    assert ids_of(ask("messages", system=SYSTEM, messages=TURNS))[0] == BOS


def test_messages_render_merges_inline_system(ask: Ask) -> None:
    inline = [*TURNS[:2], {"role": "system", "content": "Be brief."}, TURNS[2]]
    merged = ids_of(ask("messages", system=f"{SYSTEM}Be brief.", messages=TURNS))
    assert ids_of(ask("messages", system=SYSTEM, messages=inline)) == merged


def test_messages_render_error_invalid_model(ask: Ask) -> None:
    response = ask("messages", model="another", messages=TURNS[:1])
    assert response.status_code == 404
    assert "error" in response.json()
