"""How far a long work is: lines where nobody sees a bar, a bar in a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from handlers.progress import progress

CODE = """
from handlers.progress import progress
with progress("uploading", 3000, unit="B") as tell:
    tell("a", 1000)
    tell("b", 2000)
"""
ROOT = Path(__file__).parents[2]


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


def test_a_bar_in_a_terminal() -> None:
    ours, theirs = pty.openpty()
    try:
        subprocess.run([sys.executable, "-c", CODE], stderr=theirs, check=True, cwd=ROOT)
        shown = os.read(ours, 65536).decode()
    finally:
        os.close(theirs)
        os.close(ours)
    assert "uploading:" in shown
    assert "3.00k" in shown
    assert "\r" in shown
    assert "of 3,000 bytes" not in shown
