"""One way to call both clients, so that each test is written once; and the streaming client of the API page."""

from __future__ import annotations

import asyncio
import inspect
import json
from typing import Any

import httpx

from derender_client import AsyncDerenderClient, DerenderClient
from derender_client._session import LIMITS

Json = dict[str, Any]


# Reading the certificates takes longer than most of these tests: once is enough.
TLS = httpx.create_ssl_context()


class SyncCaller:
    """Opens a client, and lets it be asked."""

    def __init__(self, *urls: str, **options: Any) -> None:
        self._http = httpx.Client(verify=TLS, limits=LIMITS)
        self._client = DerenderClient(*urls, http_client=self._http, **options)

    def __enter__(self) -> SyncCaller:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()
        assert not self._http.is_closed  # it was handed in
        self._http.close()

    def ask(self, method: str, *arguments: Any, **options: Any) -> Any:
        return self._collect([], method, *arguments, **options)

    def ask_until(self, seen: list[Any], method: str, *arguments: Any, **options: Any) -> None:
        """Stream into a list, which keeps what came before an error."""
        self._collect(seen, method, *arguments, **options)

    def _collect(self, seen: list[Any], method: str, *arguments: Any, **options: Any) -> Any:
        result = getattr(self._client, method)(*arguments, **options)
        if not inspect.isgenerator(result):
            return result
        for one in result:
            seen.append(one)
        return seen


class AsyncCaller(SyncCaller):
    """The same for the async client, on an event loop of its own."""

    def __init__(self, *urls: str, **options: Any) -> None:
        self._runner = asyncio.Runner()
        self._async_http = httpx.AsyncClient(verify=TLS, limits=LIMITS)
        self._async_client = AsyncDerenderClient(*urls, http_client=self._async_http, **options)

    def __exit__(self, *_: object) -> None:
        self._runner.run(self._async_client.aclose())
        assert not self._async_http.is_closed
        self._runner.run(self._async_http.aclose())
        self._runner.close()

    def _collect(self, seen: list[Any], method: str, *arguments: Any, **options: Any) -> Any:
        async def run() -> Any:
            result = getattr(self._async_client, method)(*arguments, **options)
            if not inspect.isasyncgen(result):
                return await result
            async for one in result:
                seen.append(one)
            return seen

        return self._runner.run(run())


def stream_by_hand(render_url: str, engine_url: str, request: Json) -> list[Json]:
    """The chunks of a chat, the way the API page does it: one call a chunk, the whole context every time."""
    request = {**request, "stream": True}
    states: dict[int, Json] = {}
    chunks = []
    with httpx.Client(timeout=60) as http:
        rendered = http.post(f"{render_url}/v1/chat/completions/render", json=request).raise_for_status().json()
        with http.stream("POST", f"{engine_url}/inference/v1/generate", json=rendered) as engine:
            for line in engine.iter_lines():
                if not line.startswith("data: ") or line == "data: [DONE]":
                    continue
                chunk = json.loads(line.removeprefix("data: "))
                index = chunk["choices"][0]["index"] if chunk["choices"] else 0
                body = {
                    "stream": True,
                    "model": request["model"],
                    "generate_chunk": chunk,
                    "stream_state": states.get(index),
                    "prompt_tokens": len(rendered["token_ids"]),
                    "prompt_token_ids": rendered["token_ids"],
                    "chat_request": request,
                }
                answer = http.post(f"{render_url}/v1/chat/completions/derender", json=body).raise_for_status().json()
                states[index] = answer["stream_state"]
                chunks.append(answer["chunk"])
    return chunks


def normal(chunks: list[Json]) -> list[Json]:
    """Chunks without what differs from run to run, choice by choice; ids of tool calls by their order."""
    assert len({chunk["id"] for chunk in chunks}) <= 1
    names: dict[str, str] = {}
    by_choice: dict[int, list[Json]] = {}
    for chunk in chunks:
        chunk = {name: value for name, value in chunk.items() if name not in ("id", "created")}
        for choice in chunk["choices"]:
            for call in choice.get("delta", {}).get("tool_calls") or ():
                if call.get("id"):
                    call["id"] = names.setdefault(call["id"], f"call {len(names)}")
        index = chunk["choices"][0]["index"] if chunk["choices"] else 1000
        by_choice.setdefault(index, []).append(chunk)
    return [chunk for index in sorted(by_choice) for chunk in by_choice[index]]
