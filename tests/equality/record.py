"""``python -m tests.equality.record``: the joined answers of full vLLM and ours; the data file and the page from them."""

from __future__ import annotations

import argparse
import dataclasses
import json
import logging
import os
import subprocess
import sys
from pathlib import Path

from infra.models import MODELS, build
from infra.slice.errors import SliceError
from tests.equality import document, joined, ours, recorded
from tests.equality.cases import Models, cases, pairs
from tests.equality.wire import Case, Json
from tests.parity.reference import PYTHON, PYTHONPATH, ROOT, find_reference

SCRIPT = Path(__file__).with_name("full_vllm.py")
_SHOWN = 20
_SECONDS = 3600
Result = tuple[Json, dict[str, Json]]


def main(arguments: list[str] | None = None) -> int:
    """The exit status is 0 when all agree, 1 when anything differs, 2 when it cannot be compared."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.equality.record",
        description=__doc__,
        epilog=f"{PYTHON} names a Python with vLLM's dependencies, {PYTHONPATH} the folder of its vLLM.",
    )
    parser.add_argument("--python", type=Path, default=ROOT / ".venv-vllm" / "bin" / "python")
    parser.add_argument("--check", action="store_true", help="ours only, against the recorded answers")
    options = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    work = ROOT / "build" / "equality"
    work.mkdir(parents=True, exist_ok=True)
    for name in MODELS:
        build(name, ROOT / "build" / "models")
    deployed = Models(ROOT / "build" / "models", work)
    given, answered = our_results(deployed)
    found = recorded.collect(zip(given, answered, strict=True))
    if options.check:
        wrong = [f"{title}, {name}" for title, name in different(recorded.load(), found)]
        print(*wrong[:_SHOWN], f"{len(wrong)} outputs answered differently from the recorded answers", sep="\n")
        return 1 if wrong else 0
    try:
        theirs = full_results(deployed, given, work, options.python)
    except (OSError, ValueError, SliceError, subprocess.SubprocessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if compare(given, theirs, answered):
        return 1
    recorded.DATA.parent.mkdir(exist_ok=True)
    recorded.DATA.write_text(recorded.dumps(found), encoding="utf-8")
    document.CONCLUSIONS.write_text(document.conclusions(found), encoding="utf-8")
    document.RESULTS.write_text(document.results(found), encoding="utf-8")
    return 0


def our_results(deployed: Models) -> tuple[list[Case], list[Result]]:
    """All cases, and what our functions answer."""
    given, answered = [], []
    for pair, folder in pairs():
        model = deployed.deployment(pair, folder)
        for case in cases(model, pair, folder):
            given.append(case)
            streams = {name: ours.streamed(model, case, name) for name in case.chunkings}
            answered.append((ours.one_shot(model, case), streams))
    return given, answered


def full_results(deployed: Models, given: list[Case], work: Path, python: Path) -> list[Result]:
    """What full vLLM answers.

    Raises:
        OSError, ValueError, SliceError, subprocess.SubprocessError: it cannot be run.
    """
    reference = find_reference(os.environ, python)
    source, target = work / "cases.jsonl", work / "full-vllm.jsonl"
    with source.open("w", encoding="utf-8") as out:
        for case in given:
            fields = {**dataclasses.asdict(case), "folder": str(deployed.folder(case.folder))}
            out.write(json.dumps(fields) + "\n")
    command = [reference.python, str(SCRIPT), str(source), str(target)]
    subprocess.run(command, check=True, timeout=_SECONDS, env=reference.environ(), cwd=ROOT)
    return [tuple(json.loads(line)) for line in target.read_text(encoding="utf-8").splitlines()]


def compare(given: list[Case], theirs: list[Result], answered: list[Result]) -> int:
    """Print how many joined answers of ours are not full vLLM's, and the first ones; how many."""
    count = wrong = 0
    for case, (their_one, their_streams), (our_one, our_streams) in zip(given, theirs, answered, strict=True):
        for name, left in {"one-shot": their_one, **their_streams}.items():
            right = our_one if name == "one-shot" else our_streams[name]
            count += 1
            if left == right:
                continue
            wrong += 1
            if wrong <= _SHOWN:
                print(f"{case.title}, {case.name}, {name}: {', '.join(joined.kinds(left, right))}")
                print(f"    full vLLM: {json.dumps(left)[:600]}\n    ours:      {json.dumps(right)[:600]}")
    print(f"{count:,} joined answers, {wrong} of ours are not full vLLM's")
    return wrong


def different(left: recorded.Answers, right: recorded.Answers) -> list[tuple[str, str]]:
    """The outputs, by (parsers, name), whose answers are not the same, or that one side lacks."""
    both = [
        {(title, name): one for title, outputs in side.items() for name, one in outputs.items()}
        for side in (left, right)
    ]
    return [key for key in dict.fromkeys([*both[0], *both[1]]) if both[0].get(key) != both[1].get(key)]


if __name__ == "__main__":
    sys.exit(main())
