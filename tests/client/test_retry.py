"""How long to wait, and whether."""

from __future__ import annotations

import time
from email.utils import formatdate

import httpx
import pytest

from derender_client._effects import Lost, Reply
from derender_client._retry import Retry, retry_after


def test_waits_grow_and_are_drawn() -> None:
    retry = Retry(9, 0.5)
    reply = Reply(503, {}, b"")
    for attempt, limit in enumerate([0.5, 1, 2, 4, 8, 8, 8]):
        waits = [retry.wait(attempt, reply, True) for _ in range(50)]
        assert all(wait is not None and 0 <= wait <= limit for wait in waits)
        assert max(wait or 0 for wait in waits) > limit / 2
    assert retry.wait(9, reply, True) is None


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("0", 0), ("1.5", 1.5), ("", None), ("soon", None), ("-1", None), (formatdate(0), 0), ("1e3", None)],
)
def test_retry_after(value: str, seconds: float | None) -> None:
    assert retry_after({"retry-after": value}) == seconds
    assert retry_after({}) is None


def test_retry_after_a_date() -> None:
    headers = {"retry-after": formatdate(1_800_000_030, usegmt=True)}
    assert retry_after(headers, clock=lambda: 1_800_000_000.0) == 30
    assert retry_after(headers, clock=lambda: 1_900_000_000.0) == 0
    now = retry_after({"retry-after": formatdate(time.time() + 3600, usegmt=True)})
    assert now is not None
    assert now <= 3600


def test_retry_after_is_honoured() -> None:
    retry = Retry(2, 0.0)
    assert retry.wait(0, Reply(429, {"retry-after": "7"}, b""), True) == 7
    assert retry.wait(0, Reply(429, {"retry-after": "61"}, b""), True) is None
    assert retry.wait(0, Reply(400, {"retry-after": "7"}, b""), True) is None


@pytest.mark.parametrize(
    ("outcome", "pure", "work"),
    [
        (Lost(httpx.ConnectError("")), True, True),
        (Lost(httpx.RemoteProtocolError("")), True, True),
        (Lost(httpx.ReadTimeout("")), True, False),
        (Lost(httpx.LocalProtocolError("")), False, False),
        (Lost(httpx.DecodingError("")), False, False),
        (Lost(ValueError("")), False, False),
        (Reply(429, {}, b""), True, True),
        (Reply(502, {}, b""), True, True),
        (Reply(504, {}, b""), True, False),
        (Reply(500, {}, b""), False, False),
        (Reply(404, {}, b""), False, False),
        (Reply(307, {}, b""), False, False),
    ],
)
def test_what_is_repeated(outcome: Reply | Lost, pure: bool, work: bool) -> None:
    retry = Retry(1, 0.0)
    assert (retry.wait(0, outcome, True) is not None) == pure
    assert (retry.wait(0, outcome, False) is not None) == work
    assert retry.wait(1, outcome, True) is None
