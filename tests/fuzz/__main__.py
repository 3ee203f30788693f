"""The long run: `python -m tests.fuzz --requests 100000 --seconds 1800`, or `make fuzz`.

The requests are spread over every recorded server configuration. The exit status is 1 after any fault; each is kept
under `build/fuzz`.
"""

import argparse
import faulthandler
import logging
import sys
import time
from itertools import islice
from pathlib import Path

from tests.fuzz import growth, images, largest, openapi, relay, threads, turns
from tests.fuzz.deployment import GROWTH_BYTES, Deployment, Tally
from tests.fuzz.generators import Generator
from tests.golden import corpus
from tests.golden.corpus import Case, Server
from tests.images.recorded import MODELS as IMAGE_MODELS
from tests.images.recorded import build_models

ROOT = Path(__file__).parents[2]
THREADED: tuple[Server, ...] = (
    {"model": "qwen3", "tool_call_parser": "hermes", "enable_auto_tool_choice": True, "reasoning_parser": "qwen3"},
    {"model": "llama3", "tool_call_parser": "llama3_json", "enable_auto_tool_choice": True},
)


def configurations() -> list[tuple[Server, list[Case]]]:
    """Every recorded server configuration with its cases, those with the most cases first."""
    groups: dict[str, list[Case]] = {}
    for case in corpus.load():
        groups.setdefault(corpus.server_key(case["server"]), []).append(case)
    return [(cases[0]["server"], cases) for cases in sorted(groups.values(), key=len, reverse=True)]


def attack(server: Server, cases: list[Case], models_dir: Path, tally: Tally, count: int, schema: int, seed: int,
           until: float) -> None:  # fmt: skip
    """`count` requests of our own generators to one deployment, and about `schema` from its OpenAPI document."""
    deployment = Deployment(server, models_dir, tally)
    try:
        for request in islice(Generator(deployment, cases, seed), count):
            deployment.send(request)
            if time.monotonic() > until:
                return
        if schema:
            openapi.run(deployment, schema, seed)
    finally:
        deployment.close()


def attack_with_pictures(models_dir: Path, tally: Tally, count: int, seed: int, until: float) -> int:
    """The requests with pictures, shared among the models that take some; 1 where they take too much memory."""
    if not count:
        return 0
    folders, before = ROOT / "build" / "image-models", tally.requests
    build_models(models_dir / "qwen3", folders)
    most = max(
        images.attack(folders, model, tally, count // len(IMAGE_MODELS) + 1, seed * 1000 + number, until)
        for number, model in enumerate(IMAGE_MODELS)
    )
    print(f"pictures: {tally.requests - before:,} requests, {len(tally.faults)} faults; at most {most / 2**20:.0f} MB "
          f"above idle of {images.MOST_BYTES / 2**20:.0f} MB", flush=True)  # fmt: skip
    return int(most > images.MOST_BYTES)


def report(tally: Tally, folder: Path) -> int:
    """Print what happened and keep the faults; the exit status."""
    print(f"{tally.requests:,} requests; by status {dict(sorted(tally.statuses.items()))}")
    print("by kind", dict(tally.kinds.most_common()))
    print(f"most CPU for one request: {tally.slowest:.2f} s ({tally.slowest_what})")
    print(f"most memory gained by one deployment: {tally.growth / 2**20:.0f} MB of {GROWTH_BYTES // 2**20} MB allowed")
    for fault in tally.faults[:50]:
        print(f"FAULT {fault.why[:300]}\n    {fault.request.kind} {fault.request.path}, kept as {fault.save(folder)}")
    return 1 if tally.faults or tally.growth > GROWTH_BYTES else 0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=3600, help="stop after so long, with what is done")
    parser.add_argument("--schema-share", type=float, default=0.05, help="part of the requests made by schemathesis")
    parser.add_argument("--relay-share", type=float, default=0.1, help="part of the requests that goes to the relay")
    parser.add_argument("--image-share", type=float, default=0.05, help="part of the requests that holds pictures")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--thread-rounds", type=int, default=3, help="0: no threads")
    parser.add_argument("--only", help="configurations whose JSON holds this text")
    options = parser.parse_args(arguments)
    from infra.models import MODELS, build

    # vLLM's parsers log a stack for every output that they cannot read.
    logging.disable(logging.CRITICAL)
    models_dir = ROOT / "build" / "models"
    for name in MODELS:
        build(name, models_dir)
    chosen = [one for one in configurations() if not options.only or options.only in corpus.server_key(one[0])]
    until, tally, status = time.monotonic() + options.seconds, Tally(), 0
    relayed = round(options.requests * options.relay_share)
    pictured = round(options.requests * options.image_share)
    each = (options.requests - relayed - pictured) / len(chosen)
    relay.attack(models_dir, tally, relayed, options.seed, until)
    print(f"relay: {tally.requests:,} requests, {len(tally.faults)} faults", flush=True)
    accepted = turns.attack(models_dir, tally, relayed // 4, options.seed, until)
    print(
        f"turns: {relayed // 4:,} requests, {len(accepted)} accepted that had to be refused",
        *accepted[:5],
        sep="\n    ",
    )
    status |= bool(accepted)
    for server in {corpus.server_key(one): one for one, _ in chosen}.values():
        if time.monotonic() > until:
            break
        found = growth.attack(server, models_dir, tally)
        worst = max(found, key=found.__getitem__, default=None)
        if worst is not None:
            print(
                f"growth of {corpus.server_key(server)}: at most {found[worst]:.2f} ({worst}); "
                f"{len(tally.faults)} faults",
                flush=True,
            )
    if time.monotonic() < until:
        status |= largest.main([])
    status |= attack_with_pictures(models_dir, tally, pictured, options.seed, until)
    for number, (server, cases) in enumerate(chosen):
        if time.monotonic() > until:
            print(f"time is up after {number} of {len(chosen)} configurations")
            break
        # A hang in native code cannot be stopped from Python: then the whole run ends with the stack.
        faulthandler.dump_traceback_later(1200, exit=True)
        share = options.schema_share
        attack(server, cases, models_dir, tally, round(each * (1 - share)) + 1, round(each * share),
               options.seed * 1000 + number, until)  # fmt: skip
        print(f"{number + 1}/{len(chosen)} {tally.requests:,} requests, {len(tally.faults)} faults", flush=True)
    faulthandler.cancel_dump_traceback_later()
    status |= report(tally, ROOT / "build" / "fuzz")
    for server in THREADED if options.thread_rounds else ():
        calls, wrong = threads.differences(server, models_dir, 32, options.thread_rounds)
        print(f"32 threads, {server['model']}: {calls:,} cases, {len(wrong)} different", *wrong[:10], sep="\n    ")
        status |= bool(wrong)
    return status


if __name__ == "__main__":
    sys.exit(main())
