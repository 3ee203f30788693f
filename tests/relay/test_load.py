"""Many streams at once through `derender serve --engine-url`: nothing is lost, and memory does not grow with them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.relay.conftest import COUNTING, MODEL
from tests.support.processes import engine, observed_process, process, service

STREAMS, TOKENS = 64, 500


@pytest.fixture(scope="module")
def served(models_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    script = tmp_path_factory.mktemp("load") / "script.json"
    script.write_text(json.dumps({"rules": [{"match": "", "answer": f"<think>\n{COUNTING}"}]}))
    named = ["--served-model-name", MODEL]
    # What streams take is measured, not the encoder that a server loads beside its first answers.
    alone = ["--fast-encoder", "off"]
    with (
        process(*engine(models_dir / MODEL, "--script", str(script), "--tokens-only", *named)) as engine_url,
        observed_process(*service(models_dir / MODEL, "--engine-url", engine_url, *named, *alone)) as relay,
    ):
        yield relay


def resident(pid: int, field: str = "VmRSS") -> int:
    """Memory of a process in MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) // 1024


async def read(client: httpx.AsyncClient, url: str, body: dict[str, Any]) -> tuple[str, int, Any]:
    """The text of one stream, how many chunks it came in, and its usage."""
    text, chunks, usage = "", 0, None
    async with client.stream("POST", f"{url}/v1/chat/completions", json=body) as answer:
        assert answer.status_code == 200, await answer.aread()
        done = False
        async for line in answer.aiter_lines():
            if not line:
                continue
            assert line.startswith("data: ")
            assert not done
            if line == "data: [DONE]":
                done = True
                continue
            chunk = json.loads(line[6:])
            assert "error" not in chunk, chunk
            chunks += 1
            usage = chunk.get("usage") or usage
            for choice in chunk["choices"]:
                text += choice["delta"].get("content") or choice["delta"].get("reasoning") or ""
        assert done
    return text, chunks, usage


def test_many_streams_at_once(served: tuple[str, int]) -> None:
    url, pid = served
    body = {
        "model": MODEL,
        "messages": [{"role": "user", "content": "Count."}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": TOKENS,
        "ignore_eos": True,
    }

    async def run(streams: int) -> list[tuple[str, int, Any]]:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(timeout=120, limits=limits) as client:
            return await asyncio.gather(*(read(client, url, body) for _ in range(streams)))

    ((wanted, chunks, _),) = asyncio.run(run(1))
    assert wanted.startswith("\n1, 2, 3")
    assert chunks == TOKENS + 1  # the role and the usage; the mark that opens reasoning has no text
    before = resident(pid)
    for text, count, usage in asyncio.run(run(STREAMS)):
        assert text == wanted
        assert count == chunks
        assert usage["completion_tokens"] == TOKENS
    # 64 parsers and their connections; the text of them all is 200 KB, the chunks as JSON 8 MB.
    assert resident(pid, "VmHWM") - before < 48
    after = resident(pid)
    asyncio.run(run(STREAMS // 4))
    assert resident(pid) - after < 8, "and it does not grow from round to round"
