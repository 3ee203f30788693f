"""A checkpoint means the same in another process, where strings hash differently."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

from tests.checkpoint.equality import checkpointed
from tests.checkpoint.setups import PAIRS, Deployments

ROOT = Path(__file__).parents[2]


def test_streams_go_on_in_another_process(deployments: Deployments, models_dir: Path) -> None:
    cases = []
    expected = []
    for seed, pair in enumerate(PAIRS):
        setup, stream, prompt = deployments.stream(pair, random.Random(seed), mutated=False)
        answers, checkpoints = checkpointed(setup, stream, prompt)
        positions = sorted(random.Random(seed).sample(range(1, len(checkpoints)), min(5, len(checkpoints) - 1)))
        cases.append([pair, seed, [[position, checkpoints[position - 1]] for position in positions]])
        expected.append([[answers[position], checkpoints[position]] for position in positions])
    here = os.environ.get("PYTHONHASHSEED", "")
    done = subprocess.run(
        [sys.executable, "-m", "tests.checkpoint.other_process", str(models_dir)],
        input="\n".join(map(json.dumps, cases)),
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "1" if here != "1" else "2"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert sum(map(len, found)) > 400
    for pair, there, then in zip(PAIRS, found, expected, strict=True):
        assert [answer for answer, _ in there] == [answer for answer, _ in then], pair
