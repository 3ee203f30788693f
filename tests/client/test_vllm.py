"""A server that is vLLM's own: the same chunks, one call each, with the whole request every time.

``against_vllm.py`` runs the same against the real one, where it is installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.client.calling import SyncCaller, normal, stream_by_hand
from tests.client.conftest import NAMES
from tests.client.dialect import vllm_like
from tests.client.proxy import Proxy, proxy
from tests.support import processes

pytestmark = pytest.mark.xdist_group("client")

USAGE = {"include_usage": True}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]
REQUEST: dict[str, Any] = {
    "model": "qwen3",
    "messages": [{"role": "user", "content": "two"}],
    "n": 2,
    "tools": TOOLS,
    "stream_options": USAGE,
}


@pytest.fixture(scope="module")
def replaying(models_dir: Path) -> Iterator[str]:
    options = ["--stream-state", "replay", "--served-model-name", *NAMES]
    with processes.process(*processes.service(models_dir / "qwen3", *options)) as url:
        yield url


@pytest.fixture(params=[False, True], ids=["lenient", "strict"])
def vllm(request: pytest.FixtureRequest, replaying: str) -> Iterator[Proxy]:
    with vllm_like(replaying, strict=request.param) as running:
        yield running


@pytest.mark.parametrize("gather", [1, 6])
def test_the_same_chunks_one_call_each(open_client: type[SyncCaller], vllm: Proxy, engine: str, gather: int) -> None:
    expected = stream_by_hand(vllm.url, engine, REQUEST)
    assert not any("context" in (body["stream_state"] or {}) for body in vllm.bodies("/derender"))
    vllm.calls.clear()
    with open_client(vllm.url, engine) as client:
        first = client.ask("stream_chat", REQUEST, gather_tokens=gather)
        probes = vllm.count("/derender") - len(first)
        vllm.calls.clear()
        second = client.ask("stream_chat", REQUEST, gather_tokens=gather)
    assert normal(first) == normal(second) == normal(expected)
    # What the server does not know is tried once; then the client knows it too.
    assert probes <= 2
    bodies = vllm.bodies("/derender")
    assert len(bodies) == len(second)
    for body in bodies:
        assert not {"generate_chunks", "carry_context"} & set(body)
        assert body["chat_request"]["messages"] == REQUEST["messages"]
        assert body["prompt_token_ids"]


def test_the_whole_round_trip_and_completions(open_client: type[SyncCaller], vllm: Proxy, engine: str) -> None:
    with open_client(vllm.url, engine) as client:
        message = client.ask("chat", {**REQUEST, "n": 1})["choices"][0]["message"]
        assert message["content"].strip() == "The first 😀 answer."
        request = {"model": "qwen3", "prompt": ["Hi", "two"], "max_tokens": 7, "stream_options": USAGE}
        whole = client.ask("completion", request)
        chunks = client.ask("stream_completion", request, gather_tokens=3)
    for choice in whole["choices"]:
        texts = [one["text"] for chunk in chunks for one in chunk["choices"] if one["index"] == choice["index"]]
        assert "".join(texts) == choice["text"]
    assert chunks[-1]["usage"]["total_tokens"] == whole["usage"]["total_tokens"]


def test_bodies_are_compressed_only_where_they_are_read(
    open_client: type[SyncCaller], vllm: Proxy, watched: Proxy, engine: str
) -> None:
    request = {**REQUEST, "messages": [{"role": "user", "content": "two " * 2000}]}
    sizes = {}
    for server in (vllm, watched):
        with open_client(server.url, engine, compress=True) as client:
            plain = client.ask("stream_chat", request, gather_tokens=6)
            server.calls.clear()
            assert normal(client.ask("stream_chat", request, gather_tokens=6)) == normal(plain)
            client.ask("chat", request)
        encodings = [call.headers.get("content-encoding") for call in server.calls]
        sizes[server] = sum(call.size for call in server.calls)
        if server is vllm:
            assert set(encodings) == {None}
        else:
            assert encodings[:2] == ["gzip", "gzip"]
            # Compressing what is small costs more than it saves.
            small = [call.size for call in server.calls if call.headers.get("content-encoding") is None]
            assert all(size < 1024 for size in small)
    assert sizes[watched] < sizes[vllm] / 20


def test_a_stream_can_be_derendered_by_hand(
    open_client: type[SyncCaller], vllm: Proxy, watched: Proxy, engine: str
) -> None:
    request = {**REQUEST, "n": 1, "messages": [{"role": "user", "content": "weather"}]}
    for server, ours in ((watched, True), (vllm, False)):
        with open_client(server.url, engine) as client:
            rendered = client.ask("render_chat", {**request, "stream": True})
            engine_chunks = client.ask("generate_stream", rendered)
            chunks, state = client.ask("derender_chat_chunks", request, rendered, engine_chunks[:4])
            for part in (engine_chunks[4:9], engine_chunks[9:]):
                more, state = client.ask("derender_chat_chunks", request, rendered, part, state)
                chunks += more
            # One call a part; or one a chunk, and what was tried first.
            assert server.count("/derender") in ([3] if ours else [len(engine_chunks) + 1, len(engine_chunks) + 2])
            assert normal(chunks) == normal(client.ask("stream_chat", request))
            with pytest.raises(ValueError, match="at least one chunk"):
                client.ask("derender_chat_chunks", request, rendered, [])


def test_our_server_in_replay_mode_is_ours(open_client: type[SyncCaller], replaying: str, engine: str) -> None:
    with proxy(replaying) as running, open_client(running.url, engine) as client:
        chunks = client.ask("stream_chat", REQUEST, gather_tokens=5)
        assert normal(chunks) == normal(stream_by_hand(replaying, engine, REQUEST))
        bodies = running.bodies("/derender")
    assert ["chat_request" in body for body in bodies].count(True) == 2
    assert len(bodies) < len(chunks) / 3
