"""The code blocks of the documents, run as they stand against real processes."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
from pathlib import Path
from typing import Any

import httpx
import pytest

from handlers.commands.command_line import _parser as command_line
from handlers.commands.command_line import _with_config as with_config
from tests.docs.documents import Block, Document, document, documents

pytestmark = pytest.mark.xdist_group("docs")

# The addresses of `make demo`, which the documents use, and the names that README's text gives.
DEMO_SERVICE, DEMO_ENGINE = "http://localhost:8100", "http://localhost:8200"
LANGUAGES = {"python", "json", "sh", "text", "yaml"}
CALL = re.compile(r"`(GET|POST) (/[\w/.-]+)`")
# Different in each answer; of these only the kind of value is compared.
DRAWN = {"created", "created_at", "config", "checkpoint", "signature", "item_id", "current_item_id"}
with_python = [found for found in documents() if any(block.language == "python" for block in found.blocks)]


def test_every_block_has_a_language_that_is_tested() -> None:
    for found in documents():
        for block in found.blocks:
            assert block.language in LANGUAGES, block.place


@pytest.mark.parametrize("found", with_python, ids=lambda found: found.path)
def test_python_blocks_run_and_print_what_they_say(found: Document, service: str, engine: str) -> None:
    """One after the other, as they are read: later ones use names of earlier ones. A text block behind is the output."""
    names: dict[str, Any] = {"RENDER": service, "ENGINE": engine, "MODEL": "qwen3"}
    shown = 0
    for block, after in zip(found.blocks, [*found.blocks[1:], None], strict=False):
        if block.language != "python":
            continue
        code = block.code.replace(DEMO_SERVICE, service).replace(DEMO_ENGINE, engine)
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile("\n" * (block.line - 1) + code, block.document, "exec"), names)
        if after is not None and after.language == "text":
            assert output.getvalue().rstrip("\n") == after.code.rstrip("\n"), block.place
            shown += 1
    assert shown, f"{found.path} shows no output at all"


def test_configuration_files_are_those_of_the_server(tmp_path: Path) -> None:
    """Each block of YAML gives arguments that the command line takes."""
    blocks = [block for found in documents() for block in found.blocks if block.language == "yaml"]
    assert blocks
    for number, block in enumerate(blocks):
        path = tmp_path / f"{number}.yaml"
        path.write_text(block.code)
        arguments = command_line().parse_args(with_config(["serve", "--config", str(path)]))
        assert arguments.model, block.place


def calls(found: Document) -> list[tuple[Block, str, str, Block | None]]:
    """Each documented call: its first block, method, path, and for a POST the block of its answer."""
    blocks = [block for block in found.blocks if block.language == "json"]
    made = []
    for block, after in zip(blocks, [*blocks[1:], None], strict=False):
        call = CALL.search(block.before)
        if call:
            made.append((block, call[1], call[2], after if call[1] == "POST" else None))
    return made


every_call = [
    pytest.param(*call, id=f"{found.path}-{number}-{call[2]}")
    for found in documents()
    for number, call in enumerate(calls(found), 1)
]


@pytest.mark.parametrize(("block", "method", "path", "answer"), every_call)
def test_json_calls_are_answered_as_shown(
    block: Block, method: str, path: str, answer: Block | None, service: str
) -> None:
    request = json.loads(block.code) if method == "POST" else None
    response = httpx.request(method, service + path, json=request, timeout=30)
    expected = json.loads(answer.code if answer else block.code)
    status = re.search(r"status (\d+)", answer.before if answer else "")
    assert response.status_code == (int(status[1]) if status else 200)
    differences = list(differing(expected, response.json(), "", block.code if method == "POST" else ""))
    assert not differences, f"{(answer or block).place}: {differences}"


def differing(expected: Any, actual: Any, where: str, request: str) -> Any:
    """Where two answers differ in more than what is drawn anew for each."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in sorted(expected.keys() | actual.keys()):
            if key not in expected or key not in actual:
                yield f"{where}.{key} is in one only"
            elif key in DRAWN:
                if type(expected[key]) is not type(actual[key]):
                    yield f"{where}.{key}: {expected[key]!r} and {actual[key]!r}"
            elif key in ("id", "request_id") and expected[key] not in request:
                # A drawn id: only what stands before it is fixed.
                if re.split("[-_]", expected[key])[0] != re.split("[-_]", actual[key])[0]:
                    yield f"{where}.{key}: {expected[key]!r} and {actual[key]!r}"
            else:
                yield from differing(expected[key], actual[key], f"{where}.{key}", request)
    elif isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        for index, (one, other) in enumerate(zip(expected, actual, strict=True)):
            yield from differing(one, other, f"{where}[{index}]", request)
    elif expected != actual or type(expected) is not type(actual):
        yield f"{where}: {expected!r} and {actual!r}"


def test_every_json_block_is_json_and_belongs_to_a_call() -> None:
    for found in documents():
        known = {id(block) for call in calls(found) for block in (call[0], call[3]) if block is not None}
        for block in found.blocks:
            if block.language == "json":
                json.loads(block.code)
                assert id(block) in known, f"{block.place}: no call before it"


def test_bodies_that_are_sent_with_curl_are_answered(service: str) -> None:
    sent = 0
    for found in documents():
        for command in found.commands:
            words = shlex.split(command.text) if command.text.startswith("curl") else []
            if not words:
                continue
            path = next(
                re.sub(r"^\$\w+|^https?://[^/]+", "", word) for word in words[1:] if re.match(r"\$URL/|http", word)
            )
            body = next((words[i + 1] for i, word in enumerate(words) if word in ("-d", "--data")), None)
            response = httpx.request(
                "GET" if body is None else "POST",
                service + path,
                content=body,
                headers={"content-type": "application/json"},
            )
            assert response.status_code == 200, f"{command.place}: {response.text}"
            sent += 1
    assert sent >= 2


def listed(heading: str) -> list[str]:
    """The names in code under a heading of api.md, without paths into a field and types."""
    text = document("docs/api.md").prose.split(f"### {heading}\n", 1)[1].split("\n#", 1)[0]
    return re.findall(r"`(\w+)`", text)


PLAIN = {"model": "qwen3", "messages": [{"role": "user", "content": "Hi"}]}
VALUES: dict[str, Any] = {
    "temperature": 0.25,
    "top_p": 0.5,
    "top_k": 3,
    "min_p": 0.125,
    "frequency_penalty": 0.5,
    "presence_penalty": 0.5,
    "repetition_penalty": 1.5,
    "n": 2,
    "seed": 3,
    "stop": ["x"],
    "stop_token_ids": [5],
    "include_stop_str_in_output": True,
    "ignore_eos": True,
    "min_tokens": 2,
    "max_tokens": 3,
    "logit_bias": {"5": 1.5},
    "allowed_token_ids": [5],
    "bad_words": ["x"],
    "logprobs": True,
    "logprob_token_ids": [5],
    "prompt_logprobs": 1,
    "skip_special_tokens": True,
    "spaces_between_special_tokens": False,
    "structured_outputs": {"json_object": True},
    "response_format": {"type": "json_object"},
    "thinking_token_budget": 5,
    "repetition_detection": {"max_pattern_size": 2, "min_count": 3},
    "stream_interval": 3,
    "watermarking": True,
    "routed_experts_prompt_start": 1,
    "vllm_xargs": {"a": 1},
    "max_completion_tokens": 3,
    "top_logprobs": 2,
    "use_beam_search": True,
    "prompt_embeds": "AAAA",
    "mm_processor_kwargs": {"a": 1},
    "media_io_kwargs": {"image": {}},
    "user": "me",
    "session_id": "one",
    "length_penalty": 1.5,
    "return_tokens_as_token_ids": True,
    "return_weight_versions": True,
    "return_prompt_text": True,
    "mm_payload": "none",
    "return_mm_kwargs": False,
}


def rendered(service: str, **fields: Any) -> httpx.Response:
    if "prompt_embeds" in fields:
        body = {"model": "qwen3", "prompt": "Hi", **fields}
        return httpx.post(f"{service}/v1/completions/render", json=body)
    return httpx.post(f"{service}/v1/chat/completions/render", json={**PLAIN, "request_id": "same", **fields})


def test_what_api_md_says_of_each_render_field_is_so(service: str) -> None:
    before = rendered(service).json()
    refused = [name for name in listed("Refused fields") if name in VALUES]
    without_effect = listed("Fields without effect")
    sampling = [name for name in listed("Sampling fields") if name in VALUES]
    assert len(refused) == 4
    assert len(without_effect) == 8
    # skip_special_tokens is the parser's to decide here (api.md says so under the example).
    assert sorted({*refused, *without_effect, *sampling}) == sorted(VALUES)
    for name in refused:
        answer = rendered(service, **{name: VALUES[name]})
        assert answer.status_code == 400, name
    for name in without_effect:
        assert rendered(service, **{name: VALUES[name]}).json() == before, name
    for name in sampling:
        extra = {"logprobs": True} if name in ("top_logprobs", "logprob_token_ids") else {}
        answer = rendered(service, **{name: VALUES[name]}, **extra)
        assert answer.status_code == 200, f"{name}: {answer.text}"
        after = answer.json()
        same = after["sampling_params"] == before["sampling_params"]
        assert same == (name == "skip_special_tokens"), name
        assert {**after, "sampling_params": None} == {**before, "sampling_params": None}, name
