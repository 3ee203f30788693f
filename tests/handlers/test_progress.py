"""How far a long work is: lines where nobody sees a bar, a bar in a terminal."""

from __future__ import annotations

import io
import sys

import pytest

from handlers.progress import progress


class Terminal(io.StringIO):
    """What is shown in a terminal."""

    def isatty(self) -> bool:
        return True


def test_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("packaging", 2) as tell:
        tell("a.zip", 1)
        tell("b.zip", 1)
    with progress("uploading", 3000, unit="B") as tell:
        tell("a", 1000)
    assert capsys.readouterr().err.splitlines() == [
        "packaging: 1 of 2, a.zip",
        "packaging: 2 of 2, b.zip",
        "uploading: 1,000 of 3,000 bytes, a",
    ]


def test_a_bar_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress("uploading", 3000, unit="B") as tell:
        tell("a", 1000)
        tell("b", 2000)
    shown = terminal.getvalue()
    assert "uploading:" in shown
    assert "/3.00k" in shown
    assert "\r" in shown
    assert "of 3,000 bytes" not in shown
