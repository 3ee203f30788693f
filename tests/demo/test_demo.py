"""``make demo`` itself, on its own ports, with the API page's clients at its end."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.xdist_group("ports-8100-8200")
def test_the_demo_shows_the_round_trip(models_dir: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "examples.demo"], cwd=ROOT, capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stderr
    shown = done.stdout
    assert "content: Hello! How can I help you today?" in shown
    assert "reasoning: The user asks: Why is the sky blue?" in shown
    assert 'tool call: get_weather({"city": "Paris"})' in shown
    # The streamed tool call: its argument deltas, joined, are the arguments.
    streamed = shown.split("A tool call, streamed", 1)[1]
    deltas = re.findall(r'"arguments": "((?:[^"\\]|\\.)*)"', streamed)
    assert "".join(deltas).replace('\\"', '"') == '{"city": "Paris"}'
    # A picture: its tokens in the prompt, its tensors, and the answer of an engine that took them.
    pictured = shown.split("─ A picture ─", 1)[1].split("examples/api_example.py")[0]
    found = re.search(r"(\d+) token ids, (\d+) of them the picture's", pictured)
    assert found
    assert int(found[2]) == 16 * 11
    assert "151655 151655 151655" in pictured
    assert "tensor pixel_values: uint8 [704, 1176], 827,904 bytes" in pictured
    assert f'with mm_payload "none": {found[1]} token ids' in pictured
    assert f'with mm_payload "content_parts": {int(found[1]) - 16 * 11 + 1} token ids' in pictured
    assert "I was given a picture." in pictured
    whole, streamed = shown.split("examples/api_example.py")[1].split("examples/api_stream_example.py")
    assert "2 + 2 = 4." in whole
    assert "2 + 2 = 4." in streamed
    assert "'completion_tokens': 17" in streamed
