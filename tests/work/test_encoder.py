"""The fast encoder beside a server that answers: proved, kept, loaded in the server and in its work processes."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from core.bundle.folder import FolderFiles
from core.bundle.store import ObjectStore
from core.options import SHORT_BYTES
from core.tokenizer import FastTokenizer, load_tokenizer
from core.tokenizer.fast.proof import Proof, dump_proof, surroundings
from handlers.commands.command_line import main
from handlers.server import server_app
from handlers.settings import Settings
from handlers.work.start import working
from tests.support.models import tokenizer_in
from tests.support.waiting import wait_for
from tests.work import jobs

SHORT = "Hello <think>wörld</think>, ſ and " + "all the words there are. " * 20
LONG = "word and space, ſ <think> " * (SHORT_BYTES // 10)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder of this test's own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@contextmanager
def served(folder: Path, **settings: Any) -> Any:
    chosen = Settings(model=str(folder), served_model_name=("m",), work_processes=1, **settings)
    app = server_app(chosen)
    with working(app, chosen):
        yield app


def uses_it(app: FastAPI) -> bool:
    return app.state.loader.get().tokenizer._fast_ids("a") is not None  # type: ignore[no-any-return]


def loads(app: FastAPI) -> bool:
    """Waits until it is loaded. It is made at a low priority, which on a busy machine is none."""
    return wait_for(lambda: uses_it(app), 600.0)


def kept_in(place: Path) -> list[Path]:
    return list(place.glob("derender-*/encoder-*.json"))


def test_a_plain_folder_is_proved_beside_the_server_and_once(models_dir: Path, place: Path) -> None:
    folder = models_dir / "families"
    plain = tokenizer_in(folder)

    async def use(app: FastAPI) -> None:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
            await ask(client)  # while the proof is made
            assert await asyncio.to_thread(loads, app)
            for _ in range(2):  # the second by a new work process
                await ask(client)

    async def ask(client: httpx.AsyncClient) -> None:
        for text in (SHORT, LONG):
            answer = await client.post("/tokenize", json={"prompt": text, "add_special_tokens": False})
            assert answer.json()["tokens"] == plain.encode(text, add_special_tokens=False)

    with served(folder) as app:
        asyncio.run(use(app))
    (file,) = kept_in(place)
    assert json.loads(file.read_bytes())["different"] == 0
    changed = file.stat().st_mtime_ns
    with served(folder) as app:
        assert loads(app)
        assert file.stat().st_mtime_ns == changed, "the proof is not made again"


def test_the_work_processes_have_it_after_their_next_job(models_dir: Path, place: Path) -> None:
    with served(models_dir / "families") as app:
        pool = app.state.offloading.pool

        async def use() -> None:
            first = await pool.call(jobs.pid)
            assert not await pool.call(jobs.uses_fast_encoder)
            assert await asyncio.to_thread(loads, app)
            assert await pool.call(jobs.pid) == first, "what works is not disturbed"
            assert await pool.call(jobs.pid) != first
            assert await pool.call(jobs.uses_fast_encoder)

        asyncio.run(use())


def test_a_difference_that_was_found_is_remembered(models_dir: Path, place: Path) -> None:
    keep(place, models_dir / "families", different=1)
    with served(models_dir / "families") as app:
        (thread,) = threads()
        thread.join()
        assert not uses_it(app)


@pytest.mark.parametrize("spoilt", [b"{", b"[]"])
def test_a_spoilt_proof_is_made_again(models_dir: Path, place: Path, spoilt: bytes) -> None:
    file = keep(place, models_dir / "families", different=0)
    file.write_bytes(spoilt)
    with served(models_dir / "families") as app:
        assert loads(app)
    assert json.loads(file.read_bytes())["encodes"] > 10_000


def test_off_is_off(models_dir: Path, place: Path) -> None:
    with served(models_dir / "families", fast_encoder="off"):
        assert not threads()
    assert not kept_in(place)


def test_on_is_from_the_start(models_dir: Path, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder has no proof: the start ends. With a bundle every process has it before the first answer."""
    assert main(["serve", str(models_dir / "families"), "--fast-encoder", "on"]) == 1
    assert "--fast-encoder is on" in capsys.readouterr().err


def test_without_work_processes_a_bundle_s_proof_is_used(models_dir: Path, place: Path) -> None:
    assert main(["bundle", str(models_dir / "families"), str(place / "bundle"), "--encodes", "6000"]) == 0
    chosen = Settings(model=str(place / "bundle"), served_model_name=("m",), work_processes=0)
    app = server_app(chosen)
    with working(app, chosen):
        assert loads(app)
    assert not kept_in(place)


def threads() -> list[Any]:
    return [thread for thread in threading.enumerate() if thread.name == "encoder"]


def keep(place: Path, folder: Path, different: int) -> Path:
    """A proof as a server keeps it."""
    tokenizer = load_tokenizer(FolderFiles(folder))
    assert isinstance(tokenizer, FastTokenizer)
    subject = tokenizer.subject
    store = place / f"derender-{os.getuid()}"
    ObjectStore(store)
    file = store / f"encoder-{subject}.json"
    file.write_text(json.dumps(dump_proof(Proof(subject, *surroundings(), 1, 20_000, different))))
    return file
