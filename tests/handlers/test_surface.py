"""The flags and routes of vLLM's render server (`tests/parity/surface.py` reads them): each is here, or is listed."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

import pytest
from starlette.routing import Route

from handlers.commands.command_line import _parser
from handlers.server import server_app
from handlers.settings import Settings
from tests.parity.surface import flags, routes

ROOT = Path(__file__).parents[2]
RECORD = json.loads((Path(__file__).parent / "data" / "surface-0.33.0.json").read_text())
LISTED = (ROOT / "docs" / "flags.md").read_text()
HAVE, LACK = LISTED.split("## Flags that this server does not have")
FLAGS, ROUTES = LACK.split("## Routes")


def own_flags() -> set[str]:
    commands = next(one for one in _parser()._actions if isinstance(one, argparse._SubParsersAction))
    return {name for action in commands.choices["serve"]._actions for name in action.option_strings}


@pytest.fixture(scope="module")
def own_routes(models_dir: Path) -> set[str]:
    app = server_app(Settings(model=str(models_dir / "qwen3"), engine_url=("http://127.0.0.1:9",), docs=True))
    found = [route for route in app.routes if isinstance(route, Route)]
    return {f"{method} {route.path}" for route in found for method in route.methods or ()}


def test_the_record_is_whole() -> None:
    assert len(RECORD["flags"]) > 300
    assert {"--tensor-parallel-size", "--ssl-keyfile", "--tokenizer", "--api-server-count"} < set(RECORD["flags"])
    assert len(RECORD["routes"]) == 28


def test_every_flag_is_here_or_listed() -> None:
    listed = set(re.findall(r"`(--[a-z0-9-]+)`", FLAGS.replace("`--request-log`", "").replace("`--drain-timeout`", "")))
    reasons = {"--served-model-name", "--default-chat-template-kwargs", "--enable-tokenizer-info-endpoint"}
    ours = own_flags()
    assert set(RECORD["flags"]) - ours - listed == set(), "neither here nor in docs/flags.md"
    assert (listed & ours) - reasons == set(), "listed in docs/flags.md, and here"
    assert listed - set(RECORD["flags"]) == set(), "listed in docs/flags.md, and not vLLM's"
    assert f"all {len(RECORD['flags'])} flags" in HAVE


def test_every_route_is_here_or_listed(own_routes: set[str]) -> None:
    cells = re.findall(r"^\| (`.+?`) \|", ROUTES, re.MULTILINE)
    listed = {route for cell in cells for route in re.findall(r"`((?:GET|POST) [^`]+)`", cell)}
    assert set(RECORD["routes"]) - own_routes - listed == set(), "neither here nor in docs/flags.md"
    assert listed & own_routes == set(), "listed in docs/flags.md, and here"
    assert listed - set(RECORD["routes"]) == set(), "listed in docs/flags.md, and not vLLM's"


def test_how_the_source_is_read() -> None:
    source = """
class FrontendArgs(BaseFrontendArgs):
    root_path: str | None = None

def add(parser):
    group.add_argument("--seed", **kwargs)
    group.add_argument("-q", "--quantization")

@router.post(
    "/v1/things",
)
async def things(): ...

app.routes.append(Mount("/metrics", other))
"""
    assert set(flags(source)) == {"--root-path", "--seed", "--quantization"}
    assert set(routes(source)) == {"POST /v1/things", "GET /metrics"}
