"""Every recorded stream through the relay: its deltas, joined, are what the per-chunk endpoint's add up to.

An engine plays the recorded chunks back, and the prompt is the recorded one. With pytest-xdist use
`--dist loadgroup`, which keeps the streams of a server configuration together.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from handlers.app import create_app
from handlers.relay_endpoints import relay_router
from handlers.settings import Settings
from tests.golden import corpus
from tests.golden.application import InProcess
from tests.golden.corpus import Case, Json
from tests.relay.replaying import ReplayingEngine
from tests.support.serving import serving
from tests.support.streams import Choice, events_of, join

# Streams that cannot be compared, with what the relay answers in place of an equal stream.
REFUSED = {
    # Derender takes a request's tools and never looks whether they can be served; render does.
    "parser.deepseek_r1-only.all.*": "requires --",
    "parser.deepseek_r1-only.cut-in-reason.*": "requires --",
    "parser.deepseek_r1-only.required-json.*": "requires --",
    "parser.deepseek_r1-only.reason-content.*": "requires --",
    "parser.qwen3-only.all.*": "requires --",
    "parser.qwen3-only.nothink.3": "requires --",
    "parser.qwen3-only.named-json.*": "requires --",
    "parser-server.auto-not-enabled.*": "requires --",
    "bugs.b04.llama3.stream-1": "echo with logprobs",
    # A parser that wants one token a chunk: recorded as an error, too.
    "parser.hunyuan_a13b+hunyuan_a13b.*.3": "cannot be read",
    "parser.hunyuan_a13b+hunyuan_a13b.*.random": "cannot be read",
    # The recorded stream has no end.
    "bugs.e03.*.alone": "ended before",
}
NOT_COMPARED = {
    "bugs.d07.*.stream-whole": "stop strings: recorded as refused, served by the relay",
    "seed.mistral-spm.none.stream": "no prompt: the relay always has one",
    "seed.mistral-spm.empty.stream": "no prompt: the relay always has one",
    "seed.mistral-spm.null.stream": "no prompt: the relay always has one",
}
# Drawn ids, and what stands for them in a recorded answer.
_RANDOM = re.compile(r"\$\d+|[0-9a-f]{16,64}")
_MISTRAL_ID = re.compile(r"^[A-Za-z0-9]{9}$|^mistral-.*$")


@cache
def streams() -> dict[str, list[Case]]:
    """The recorded streams by server configuration."""
    found: dict[str, list[Case]] = {}
    for case in corpus.by_server(corpus.load()):
        if "stream" in case:
            found.setdefault(corpus.server_key(case["server"]), []).append(case)
    return found


def lookup(table: dict[str, str], case: Case) -> str | None:
    return next((text for pattern, text in table.items() if corpus.matches(pattern, case["id"])), None)


@pytest.fixture(scope="module")
def engine() -> Iterator[tuple[ReplayingEngine, str]]:
    replaying = ReplayingEngine()
    with serving(replaying.app) as url:
        yield replaying, url


def relay(server: Json, models_dir: Path, engine_url: str) -> InProcess:
    options = {key: value for key, value in server.items() if key not in ("model", "env")}
    settings = Settings(
        model=str(models_dir / server["model"]),
        served_model_name=[server["model"]],
        environ=dict(server.get("env", {})),
        engine_url=(engine_url,),
        answers="vllm",  # the recordings are vLLM's
        prompts="vllm",
        parser_family="any",
        **options,
    )
    return InProcess(create_app(settings, relay_router(settings)))


def request_of(case: Case) -> tuple[str, Json]:
    """The path and the body of a request whose engine would have streamed the recorded chunks."""
    common, chunks = case["stream"]["common"], case["stream"]["chunks"]
    path = case["endpoint"].removesuffix("/derender")
    is_chat = "chat" in path
    body = dict(common.get("chat_request" if is_chat else "completion_request") or {})
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    body["n"] = max((choice["index"] for choice in choices), default=0) + 1
    body["stream"] = True
    for limit in ("max_tokens", "max_completion_tokens", "stream_options"):
        body.pop(limit, None)
    prompt = common.get("prompt_token_ids")
    if is_chat:
        body.setdefault("messages", [{"role": "user", "content": "Hi"}])
        if prompt:
            # How vLLM lets a request bring its prompt: what a decode step carries over from its prefill step.
            body["kv_transfer_params"] = {"prompt_token_ids": prompt}
    else:
        body["prompt"] = prompt or "Hi"
        body["max_tokens"] = max(1, sum(len(choice.get("token_ids") or ()) for choice in choices))
    return path, body


@pytest.mark.parametrize(
    "key", [pytest.param(key, marks=pytest.mark.xdist_group(f"relay-{i}")) for i, key in enumerate(streams())]
)
def test_the_relay_streams_what_derender_answers_chunk_by_chunk(
    key: str, models_dir: Path, engine: tuple[ReplayingEngine, str]
) -> None:
    replaying, url = engine
    application = relay(json.loads(key), models_dir, url)
    try:
        for case in streams()[key]:
            replaying.chunks = case["stream"]["chunks"]
            path, body = request_of(case)
            status, answer = application.call(
                "POST", path, json.dumps(body).encode(), {"content-type": "application/json"}
            )
            check(case, status, answer if isinstance(answer, str) else json.dumps(answer))
    finally:
        application.close()


def check(case: Case, status: int, text: str) -> None:
    refused = lookup(REFUSED, case)
    if refused is not None:
        assert refused in text, case["id"]
        return
    assert status == 200, (case["id"], text)
    chunks = events_of(text)
    assert not any("error" in chunk for chunk in chunks), (case["id"], chunks[-1])
    if lookup(NOT_COMPARED, case) is not None:
        return
    want = joined(response["chunk"] for response in case["stream"]["responses"])
    assert joined(chunks) == want, case["id"]


def joined(chunks: Iterable[Json]) -> dict[int, Choice]:
    """What each choice adds up to. A text that is absent is empty, and of an id drawn at random only its form counts."""
    choices = join(chunks).choices
    for choice in choices.values():
        for name in ("role", "content", "reasoning", "text"):
            setattr(choice, name, getattr(choice, name) or "")
        for call in choice.calls.values():
            call.id = call.id and ("mistral" if _MISTRAL_ID.match(call.id) else _RANDOM.sub("$", call.id))
    return choices


def test_every_exception_is_one() -> None:
    """What is on the lists is in the corpus; and few it is."""
    ids = [case["id"] for cases in streams().values() for case in cases]
    for pattern in (*REFUSED, *NOT_COMPARED):
        assert any(corpus.matches(pattern, case_id) for case_id in ids), pattern
    compared = [
        case_id for case_id in ids if not any(corpus.matches(pattern, case_id) for pattern in (*REFUSED, *NOT_COMPARED))
    ]
    assert len(ids) - len(compared) < 40
    assert len(compared) > 560
