"""Server-sent events: any cutting into pieces gives the same events."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from derender_client._sse import EventDecoder


def decode(*pieces: bytes) -> list[str]:
    decoder = EventDecoder()
    return [data for piece in pieces for data in decoder.feed(piece)]


@pytest.mark.parametrize(
    ("text", "events"),
    [
        (b"data: 1\n\ndata: 2\n\n", ["1", "2"]),
        (b"data: 1\r\n\r\ndata: 2\r\n\r\n", ["1", "2"]),
        (b"data: 1\r\rdata: 2\r\r\n", ["1", "2"]),
        (b"data:1\n\ndata:  2\n\n", ["1", " 2"]),
        (b": comment\n\nevent: x\nid: 1\ndata: 1\nretry: 5\n\n", ["1"]),
        (b"data: 1\ndata: 2\n\n", ["1\n2"]),
        (b"data\n\n", [""]),
        (b"\n\n\n", []),
        (b"data: unfinished\n", []),
        ("data: \u2028 \x85 \x0b 東京\n\n".encode(), ["\u2028 \x85 \x0b 東京"]),
        (b"data: \xff\n\n", ["\ufffd"]),
    ],
)
def test_events(text: bytes, events: list[str]) -> None:
    assert decode(text) == events
    assert decode(*[text[i : i + 1] for i in range(len(text))]) == events


LINE = st.sampled_from([b"data: ab", b"data:", b"", b": c", b"x", b"event: e", "data: ü".encode()])
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


@given(lines=st.lists(st.tuples(LINE, ENDS)), cuts=st.lists(st.integers(0, 200)))
@settings(max_examples=200, deadline=None)
def test_cuts_do_not_matter(lines: list[tuple[bytes, bytes]], cuts: list[int]) -> None:
    text = b"".join(line + end for line, end in lines)
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[a:b] for a, b in itertools.pairwise(places)]
    # A last carriage return is held back, as a line feed may follow: something must.
    assert decode(*pieces, b"\n") == decode(text + b"\n")
