"""Jobs and the processes that do them: what comes back, what waits, and what becomes of a process that ends."""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import FastAPI

from core.bundle.folder import FolderFiles
from core.errors import BadRequest, InvalidState, Overloaded, RequestError, ShuttingDown, Unavailable
from core.model import Model, load_model
from core.options import ModelOptions
from handlers.logs import ReportedFault
from handlers.work import worker
from handlers.work.nursery import Nursery
from handlers.work.pool import WorkPool
from handlers.work.tasks import Here
from tests.support.waiting import wait_for
from tests.work import jobs

Use = Callable[[WorkPool], Awaitable[None]]


@contextmanager
def pool(
    processes: int = 1, deadline: float = 0.0, most_waiting: int = 4, model: Any = None
) -> Iterator[tuple[WorkPool, Nursery]]:
    here = Here(FastAPI(), {}, lambda: model, 1024)
    nursery = Nursery(gc.freeze, lambda sock: worker.work(sock, here, deadline))
    made = WorkPool(nursery, lambda: model, processes, deadline, most_waiting)
    try:
        yield made, nursery
    finally:
        made.close()


def using(use: Use, **options: Any) -> None:
    with pool(**options) as (made, _):
        asyncio.run(use(made))


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_job_comes_back_as_it_was_sent() -> None:
    async def use(pool: WorkPool) -> None:
        value = {"a": [1, 2.5, None, "é"], "b": (b"x", frozenset((1,)))}
        assert await pool.call(jobs.echo, value) == value
        assert bytes(await pool.call(jobs.large, 3_000_000)) == b"x" * 3_000_000
        sent = pickle.PickleBuffer(b"y" * 2_000_000)
        assert await pool.call(jobs.digest, sent, apart=True) == sha256(b"y" * 2_000_000).hexdigest()
        assert await pool.call(jobs.pid) != os.getpid()

    using(use)


def test_the_model_stands_for_itself(models_dir: Path) -> None:
    """Megabytes of vocabulary are on both sides already."""
    model = load_model(FolderFiles(models_dir / "qwen3"), ModelOptions(served_names=("m",)))

    async def use(pool: WorkPool) -> None:
        assert await pool.call(jobs.echo, {"request": SimpleNamespace(model=model)}) == {
            "request": SimpleNamespace(model=model)
        }
        assert await pool.call(jobs.model) is model

    using(use, model=model)
    assert isinstance(model, Model)


def test_the_loop_goes_on_while_a_job_is_done(tmp_path: Path) -> None:
    async def use(pool: WorkPool) -> None:
        begun, path = tmp_path / "begun", tmp_path / "go"
        job = asyncio.ensure_future(pool.call(jobs.wait_for, begun, path))
        while not begun.exists():
            await asyncio.sleep(0.01)
        assert not job.done()
        path.touch()  # by the loop: were it not free, the job would never end
        assert await job == int(begun.read_text())

    using(use)


def test_jobs_wait_in_order_and_no_more_of_them_than_may(tmp_path: Path) -> None:
    async def use(pool: WorkPool) -> None:
        path = tmp_path / "go"
        begun = [tmp_path / f"begun{number}" for number in range(3)]
        running = [asyncio.ensure_future(pool.call(jobs.wait_for, one, path)) for one in begun]
        while not begun[0].exists():
            await asyncio.sleep(0.01)
        assert pool.waiting == 2
        with pytest.raises(Overloaded, match="work_queue") as refused:
            await pool.call(jobs.pid)
        assert refused.value.status == 503
        assert refused.value.retry_after
        assert not begun[1].exists()
        path.touch()
        assert len(set(await asyncio.gather(*running))) == 1
        assert pool.waiting == 0
        await pool.call(jobs.pid)

    using(use, most_waiting=2)


def test_who_waits_and_leaves_takes_no_place(tmp_path: Path) -> None:
    async def use(pool: WorkPool) -> None:
        begun, path = tmp_path / "begun", tmp_path / "go"
        running = asyncio.ensure_future(pool.call(jobs.wait_for, begun, path))
        while not begun.exists():
            await asyncio.sleep(0.01)
        for _ in range(20):
            waiting = asyncio.ensure_future(pool.call(jobs.pid))
            await asyncio.sleep(0)
            assert pool.waiting == 1
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert pool.waiting == 0
        path.touch()
        assert await running == await pool.call(jobs.pid)

    using(use, most_waiting=1)


@pytest.mark.parametrize("job", [jobs.burn, jobs.burn_in_c])
def test_a_job_that_takes_too_long_is_ended_wherever_it_is(job: Callable[..., Any]) -> None:
    async def use(pool: WorkPool) -> None:
        first = await pool.call(jobs.pid)
        with pytest.raises(BadRequest, match=r"work_deadline of 0\.2 seconds"):
            await pool.call(job)
        assert wait_for(lambda: not alive(first))
        assert await pool.call(jobs.pid) != first

    using(use, deadline=0.2)


def test_a_client_that_leaves_ends_its_job(tmp_path: Path) -> None:
    async def use(pool: WorkPool) -> None:
        begun = tmp_path / "begun"
        job = asyncio.ensure_future(pool.call(jobs.wait_for, begun, tmp_path / "never"))
        while not begun.exists() or not begun.read_text():
            await asyncio.sleep(0.01)
        job.cancel()
        with pytest.raises(asyncio.CancelledError):
            await job
        assert wait_for(lambda: not alive(int(begun.read_text())))
        await pool.call(jobs.pid)

    using(use)


def test_a_job_whose_process_ends_at_once_is_tried_once_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def use(pool: WorkPool) -> None:
        assert await pool.call(jobs.end, tmp_path / "once")
        with pytest.raises(Overloaded, match="ended"):
            await pool.call(jobs.end)
        assert await pool.call(jobs.pid)

    using(use)
    assert capsys.readouterr().out.count("a work process ended") == 3


def test_what_a_job_raises_is_raised() -> None:
    async def use(pool: WorkPool) -> None:
        before = await pool.call(jobs.pid)
        with pytest.raises(InvalidState) as refused:
            await pool.call(jobs.refuse)
        assert refused.value.message == "invalid stream_state: made up"
        assert refused.value.param == "stream_state.field"
        with pytest.raises(ReportedFault) as fault:
            await pool.call(jobs.fail)
        assert fault.value.kind == "KeyError"
        assert any("fail" in frame for frame in fault.value.frames)
        assert "secret" not in str(fault.value) + str(fault.value.frames)
        with pytest.raises(ReportedFault):
            await pool.call(jobs.unpicklable)
        assert await pool.call(jobs.pid) == before

    using(use)


def made(kind: type[RequestError]) -> RequestError:
    for arguments in (("words", "field"), ("words",), ()):
        try:
            return kind(*arguments)
        except TypeError:
            continue
    raise AssertionError(kind)


def test_every_error_of_ours_can_be_sent() -> None:
    def kinds(kind: type[RequestError]) -> Iterator[type[RequestError]]:
        yield kind
        for other in kind.__subclasses__():
            yield from kinds(other)

    found = set(kinds(RequestError))
    assert len(found) > 15
    assert ShuttingDown in found
    for kind in found:
        error = made(kind)
        copied = pickle.loads(pickle.dumps(error))
        assert (type(copied), copied.__dict__, str(copied)) == (kind, error.__dict__, str(error))


def test_a_process_ends_after_many_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "MOST_JOBS", 3)

    async def use(pool: WorkPool) -> None:
        pids = [await pool.call(jobs.pid) for _ in range(9)]
        assert [pids.count(one) for one in dict.fromkeys(pids)] == [3, 3, 3]

    using(use)


def test_a_process_that_has_grown_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "MOST_GROWTH", 32 * 1024 * 1024)

    async def use(pool: WorkPool) -> None:
        first = await pool.call(jobs.grow, 1024)
        assert await pool.call(jobs.grow, 64 * 1024 * 1024) == first
        assert await pool.call(jobs.pid) != first

    using(use)


def test_without_a_nursery_the_server_says_so() -> None:
    async def use(pool: WorkPool) -> None:
        pool.check()
        await pool.call(jobs.pid)

    with pool() as (made, nursery):
        asyncio.run(use(made))
        os.kill(nursery.pid, 9)
        os.waitpid(nursery.pid, 0)

        async def ended() -> None:
            with pytest.raises(Overloaded):
                await made.call(jobs.end)
            with pytest.raises(Unavailable):
                made.check()
            with pytest.raises(Overloaded):
                await made.call(jobs.pid)

        asyncio.run(ended())


def test_all_processes_end_with_the_pool() -> None:
    pids = []

    async def use(pool: WorkPool) -> None:
        pids.extend(await asyncio.gather(*(pool.call(jobs.pid) for _ in range(4))))

    with pool(processes=2) as (made, nursery):
        asyncio.run(use(made))
        pids.append(nursery.pid)
    assert len(set(pids)) > 1
    for one in set(pids):
        assert wait_for(lambda one=one: not alive(one))
