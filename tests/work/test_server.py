"""A server with work processes answers as one without, and what takes long is not done on its event loop."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import re
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from core.options import SHORT_BYTES
from core.relay.answer import AnswerStream
from handlers.beside import beside
from handlers.server import server_app
from handlers.settings import Settings
from handlers.work.start import working
from tests.support.processes import engine, observed_process, process, service
from tests.support.waiting import wait_for

CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}
LONG = {"messages": [{"role": "user", "content": "hi " * SHORT_BYTES}]}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
CALL = '<think>\nx</think>\n<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
# Turns go to the process and back with their request.
TURNS = ("--continue-turns", "exact")
RENDER, DERENDER = "/v1/chat/completions/render", "/v1/chat/completions/derender"


def whole(ids: list[int]) -> dict[str, Any]:
    choice = {"index": 0, "token_ids": ids, "finish_reason": "stop"}
    return {"generate_response": {"request_id": "r", "choices": [choice]}, "chat_request": {**CHAT, "tools": [TOOL]}}


def chunks(ids: list[list[int]], **fields: Any) -> dict[str, Any]:
    sent = [{"request_id": "r", "choices": [{"index": 0, "token_ids": one}]} for one in ids]
    request = {**CHAT, "stream": True}
    return {"stream": True, "generate_chunks": sent, "prompt_token_ids": [1], "chat_request": request, **fields}


# Each with whether it leaves the loop.
REQUESTS: dict[str, tuple[str, Any, bool]] = {
    "short render": (RENDER, CHAT, False),
    "long render": (RENDER, LONG, True),
    "long render of a completion": ("/v1/completions/render", {"prompt": "hi " * SHORT_BYTES}, True),
    "tokenize": ("/tokenize", {"prompt": "hi"}, False),
    "long tokenize": ("/tokenize", {"prompt": "hi " * SHORT_BYTES}, True),
    "detokenize": ("/detokenize", {"tokens": [1, 2]}, False),
    "long detokenize": ("/detokenize", {"tokens": [1] * SHORT_BYTES}, True),
    "chunk": (DERENDER, chunks([[9707]]), False),
    "whole output": (DERENDER, whole([9707]), True),
    "no JSON": (RENDER, b"{", False),
    "long no JSON": (RENDER, b"{" * (SHORT_BYTES + 1), True),
    "long and wrong": (RENDER, {**LONG, "model": "other"}, True),
    "long count": ("/v1/messages/count_tokens", {**LONG, "model": "m", "max_tokens": 5}, True),
    "no such field of a long one": (DERENDER, {**whole([9707]), "chat_request": {"x": "y" * SHORT_BYTES}}, True),
}


@pytest.fixture(scope="module")
def settings(models_dir: Path) -> Settings:
    return Settings(
        model=str(models_dir / "qwen3"),
        served_model_name=("m",),
        tool_call_parser="hermes",
        reasoning_parser="qwen3",
        enable_auto_tool_choice=True,
        work_processes=1,
        engine_url=("http://127.0.0.1:9",),
    )


def content(body: Any) -> bytes:
    return body if isinstance(body, bytes) else json.dumps(body).encode()


async def post(app: FastAPI, path: str, body: bytes, **headers: str) -> httpx.Response:
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        headers = {"content-type": "application/json", "x-request-id": "given", **headers}
        return await client.post(path, content=body, headers=headers)


def called(app: FastAPI) -> list[str]:
    """The names of the functions that the pool is asked for from now on."""
    pool, names = app.state.offloading.pool, []
    call: Callable[..., Awaitable[Any]] = pool.call

    async def note(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        names.append(function.__name__)
        return await call(function, *arguments, **options)

    pool.call = note
    return names


def shown(answer: httpx.Response) -> tuple[int, dict[str, str], Any]:
    body = json.loads(re.sub(r'"created": ?[0-9]+', '"created":0', answer.text))
    return answer.status_code, dict(answer.headers) | {"content-length": ""}, body


def test_every_answer_is_the_same_and_long_work_is_done_elsewhere(settings: Settings) -> None:
    async def run(app: FastAPI) -> None:
        for name, (path, body, long) in REQUESTS.items():
            names = called(app)
            there = await post(app, path, content(body))
            assert names == (["answer"] if long else []), name
            assert shown(there) == shown(await post(plain, path, content(body))), name

    plain, app = server_app(settings), server_app(settings)
    with working(app, settings):
        asyncio.run(run(app))


def test_a_body_that_expands_leaves_the_loop(settings: Settings) -> None:
    async def run(app: FastAPI) -> None:
        names = called(app)
        for body, long in ((CHAT, False), (LONG, True)):
            packed = gzip.compress(content(body))
            assert len(packed) < SHORT_BYTES
            answer = await post(app, RENDER, packed, **{"content-encoding": "gzip"})
            assert answer.status_code == 200
            assert names == (["answer"] if long else [])

    app = server_app(settings)
    with working(app, settings):
        asyncio.run(run(app))


def test_what_is_counted_of_a_request_is_counted(
    models_dir: Path, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    """The request's line is the server's, with what the process counted; and so is what the audit found."""
    logging = Settings(**{**settings.__dict__, "request_log": "all"})
    app = server_app(logging)
    cut = app.state.loader.get().tokenizer.encode('<tool_call>\n{"name": "f", "argu')

    async def run() -> None:
        await post(app, RENDER, content(LONG))
        await post(app, DERENDER, content(whole([*cut])))

    with working(app, logging):
        asyncio.run(run())
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    rendered, derendered = [line for line in lines if line["message"] == "request"]
    assert rendered["prompt_tokens"] > SHORT_BYTES
    assert rendered["answer_bytes"] > SHORT_BYTES
    assert rendered["request_id"] == "given"
    assert derendered["completion_tokens"] == len(cut)
    (audit,) = [line for line in lines if line["message"] == "audit"]
    assert audit["audited"] == 1


def test_a_fault_there_is_a_line_here(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    app = server_app(settings)

    async def broken(*_: Any) -> Any:
        raise KeyError("what a client sent")

    route = app.state.offloading.routes["/tokenize"]
    app.state.offloading.routes["/tokenize"] = type(route)(route.path, route.name, broken, route.forms)
    with working(app, settings):
        answer = asyncio.run(post(app, "/tokenize", b" " * (SHORT_BYTES + 1)))
    assert answer.status_code == 500
    assert "what" not in answer.text
    out = capsys.readouterr().out
    line = json.loads(out.splitlines()[-1])
    assert (line["message"], line["exception"], line["endpoint"]) == ("fault", "KeyError", "/tokenize")
    assert "what a client sent" not in out


def test_with_a_cache_of_turns_a_long_request_is_opened_beside_the_loop(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is this process's own cache: no other process can open the request."""
    opened: list[bool] = []

    async def noted(work: Callable[..., Any], *arguments: Any) -> Any:
        opened.append(True)
        return await beside(work, *arguments)

    monkeypatch.setattr("handlers.work.offload.beside", noted)
    cached = replace(settings, continue_turns="exact", turn_cache=1)
    app = server_app(cached)

    async def run() -> None:
        names = called(app)
        for body, status, long in ((CHAT, 503, False), (LONG, 503, True), ({**LONG, "model": "other"}, 404, True)):
            opened.clear()
            answer = await post(app, "/v1/chat/completions", content({"model": "m", **body, "max_tokens": 1}))
            assert (answer.status_code, bool(opened)) == (status, long), answer.text
        assert not names

    with working(app, cached):
        asyncio.run(run())


def steps_of(app: FastAPI, body: Any, monkeypatch: pytest.MonkeyPatch, long: float) -> tuple[str, list[str]]:
    """The events of a relayed stream, and the threads that read the engine's chunks."""
    threads: list[str] = []
    advance = AnswerStream.advance

    def noted(*arguments: Any) -> Any:
        threads.append(threading.current_thread().name)
        return advance(*arguments)

    monkeypatch.setattr(AnswerStream, "advance", noted)
    monkeypatch.setattr("handlers.beside.LONG", long)
    answer = asyncio.run(post(app, "/v1/chat/completions", content(body)))
    monkeypatch.undo()
    return re.sub(r'"created":[0-9]+|"id":"[^"]*"|"request_id":"[^"]*"', "", answer.text), threads


def test_a_relayed_stream_is_the_same_beside_the_loop(
    models_dir: Path, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every chunk after the first is read there, or none is."""
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"rules": [{"match": "", "answer": CALL}]}))
    command = engine(models_dir / "qwen3", "--script", str(script), "--tokens-only", "--served-model-name", "m")
    body = {**CHAT, "model": "m", "tools": [TOOL], "max_tokens": 100, "stream": True}
    with process(*command) as url:
        relaying = replace(settings, engine_url=(url,))
        here, on_loop = steps_of(server_app(relaying), body, monkeypatch, 60.0)
        there, aside = steps_of(server_app(relaying), body, monkeypatch, -1.0)
    assert here == there
    assert here.endswith("data: [DONE]\n\n")
    assert set(on_loop) == {"MainThread"}
    assert {name.partition("_")[0] for name in aside[1:]} == {"beside"}


@pytest.fixture(scope="module")
def relay(models_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    script = tmp_path_factory.mktemp("work") / "script.json"
    script.write_text(json.dumps({"rules": [{"match": "", "answer": CALL}]}))
    model = models_dir / "qwen3"
    with (
        process(*engine(model, "--script", str(script), "--tokens-only", "--served-model-name", "m")) as engine_url,
        observed_process(*service(model, "--engine-url", engine_url, "--served-model-name", "m", *TURNS)) as served,
    ):
        yield served


@pytest.mark.parametrize("asked", [CHAT, LONG])
def test_the_relay_renders_and_writes_whole_answers_elsewhere(relay: tuple[str, int], asked: dict[str, Any]) -> None:
    url, _ = relay
    body = {**asked, "model": "m", "tools": [TOOL], "max_tokens": 100}
    answer = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=60).json()
    (choice,) = answer["choices"]
    assert choice["message"]["reasoning"].strip() == "x"
    assert choice["message"]["tool_calls"][0]["function"] == {"name": "f", "arguments": "{}"}
    assert (answer["usage"]["prompt_tokens"] > SHORT_BYTES) == (asked is LONG)
    streamed = httpx.post(f"{url}/v1/chat/completions", json={**body, "stream": True}, timeout=60)
    assert streamed.text.endswith("data: [DONE]\n\n")
    assert '"error"' not in streamed.text
    refused = httpx.post(f"{url}/v1/chat/completions", json={**body, "model": "other"}, timeout=60)
    assert refused.status_code == 404


def descendants(pid: int) -> set[int]:
    """All processes that a process has started, and those that they have."""
    found: set[int] = set()
    for task in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = task.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            child = int(task.parent.name)
            found |= {child} | descendants(child)
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_process_outlives_the_server(models_dir: Path, number: int) -> None:
    with observed_process(*service(models_dir / "qwen3", "--work-processes", "3")) as (_, pid):
        assert wait_for(lambda: len(descendants(pid)) == 4)
        found = descendants(pid)
        os.kill(pid, number)
        assert wait_for(lambda: not any(Path(f"/proc/{one}").exists() for one in found))


def test_a_key_that_fills_the_queue_leaves_room_for_another(models_dir: Path) -> None:
    """The process is held, so that what waits is known: one request is in it, four wait, the others are refused."""
    options = ("--work-processes", "1", "--work-queue", "4", "--work-deadline", "0", "--api-key", "aaaa", "bbbb")
    answers: dict[str, list[int]] = {"aaaa": [], "bbbb": []}

    def send(url: str, key: str) -> None:
        headers = {"authorization": f"Bearer {key}"}
        answers[key].append(httpx.post(f"{url}{RENDER}", json=LONG, headers=headers, timeout=300).status_code)

    with observed_process(*service(models_dir / "qwen3", *options)) as (url, pid):
        send(url, "aaaa")
        (held,) = [one for one in descendants(pid) if not descendants(one)]
        os.kill(held, signal.SIGSTOP)
        threads = [threading.Thread(target=send, args=(url, "aaaa")) for _ in range(9)]
        for thread in threads:
            thread.start()
        assert wait_for(lambda: answers["aaaa"] == [200, 503, 503, 503, 503])
        threads.append(threading.Thread(target=send, args=(url, "bbbb")))
        threads[-1].start()
        assert wait_for(lambda: answers["aaaa"] == [200, 503, 503, 503, 503, 503])
        os.kill(held, signal.SIGCONT)
        for thread in threads:
            thread.join()
    assert answers["aaaa"][6:] == [200] * 4
    assert answers["bbbb"] == [200]


def test_without_processes_there_are_none(models_dir: Path) -> None:
    with observed_process(*service(models_dir / "qwen3", "--work-processes", "0")) as (url, pid):
        assert httpx.post(f"{url}{RENDER}", json=LONG, timeout=60).status_code == 200
        assert not descendants(pid)
