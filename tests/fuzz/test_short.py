"""The short run of the fuzzer, and proof that it finds what it is for. `python -m tests.fuzz` is the long one."""

import json
import logging
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from core.bounds import MAX_DECODED_IDS
from handlers.routing import json_endpoint
from infra.package.build import ROOT
from tests.fuzz import growth, images, openapi, relay, threads, turns
from tests.fuzz.__main__ import configurations
from tests.fuzz.deployment import GROWTH_BYTES, Deployment, Request, Tally
from tests.fuzz.generators import CHAT, Generator
from tests.images.recorded import build_models

pytestmark = pytest.mark.xdist_group("fuzz")

PLAIN = {"model": "qwen3"}
HERMES = {"model": "qwen3", "tool_call_parser": "hermes", "enable_auto_tool_choice": True, "reasoning_parser": "qwen3"}
# Seconds of the process's CPU time. A collector's pass over everything that the suite holds is in it; what was found took 5.
CHEAP = 3
PARSERS = ("hermes", "llama3_json", "deepseek_v31", "qwen3_coder", "openai", "minimax_m2")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """vLLM's parsers log a stack for every output that they cannot read."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def described(tally: Tally) -> list[str]:
    return [f"{fault.why}: {fault.request} {fault.server}"[:2000] for fault in tally.faults]


@pytest.mark.parametrize("parser", PARSERS)
def test_altered_requests(parser: str, models_dir: Path) -> None:
    server, cases = next(one for one in configurations() if one[0].get("tool_call_parser") == parser)
    tally = Tally()
    deployment = Deployment(server, models_dir, tally)
    for request in islice(Generator(deployment, cases, seed=1, streams=2), 200):
        deployment.send(request)
    deployment.close()
    assert not described(tally)
    assert tally.growth < GROWTH_BYTES
    # Not only refusals, and not only answers: else the requests would be too wild or too tame.
    assert min(tally.statuses[200], tally.statuses[400]) > 30


def test_the_openapi_document(models_dir: Path) -> None:
    tally = Tally()
    deployment = Deployment(PLAIN, models_dir, tally)
    openapi.run(deployment, 48, number=1)
    deployment.close()
    assert not described(tally)
    assert min(tally.kinds["openapi positive"], tally.kinds["openapi negative"]) > 15


def test_the_relay_between_hostile_clients_and_engines(models_dir: Path) -> None:
    tally = Tally()
    relay.attack(models_dir, tally, 600, seed=1)
    assert not described(tally)
    assert tally.growth < GROWTH_BYTES
    assert min(tally.statuses[200], tally.statuses[400], tally.statuses[502]) > 30


def test_forged_and_mixed_turns(models_dir: Path) -> None:
    tally = Tally()
    wrong = turns.attack(models_dir, tally, 500, seed=1)
    assert not described(tally)
    assert not wrong
    assert tally.statuses[400] > 300


@pytest.fixture(scope="module")
def image_models(models_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("image-models")
    build_models(models_dir / "qwen3", folder)
    return folder


@pytest.mark.filterwarnings("ignore::UserWarning:PIL", "ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("model", ["qwen2.5-vl", "internvl"])
def test_hostile_pictures_and_urls(model: str, image_models: Path) -> None:
    tally = Tally()
    taken = images.attack(image_models, model, tally, 250, seed=1)
    assert not described(tally)
    assert taken < images.MOST_BYTES, f"{taken / 2**20:.0f} MB"
    kinds = {kind for kind in tally.kinds if kind.startswith("image ")}
    assert len(kinds) >= 10, kinds
    assert tally.kinds["image url"] > 200
    assert min(tally.statuses[200], tally.statuses[400]) > 30


def test_a_connection_to_a_private_address_is_seen() -> None:
    with images.origin() as (_, trap):
        socket.create_connection(("127.0.0.1", trap.port)).close()
        deadline = time.monotonic() + 10
        while not trap.caught and time.monotonic() < deadline:
            time.sleep(0.01)
        assert trap.caught == 1


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, {"error": {"message": "Internal server error"}}),
        (200, 'data: {"choices": []}\n\n'),
        (200, "data: {\n\ndata: [DONE]\n\n"),
        (200, 'data: {"error": {"message": "Internal server error"}}\n\ndata: [DONE]\n\n'),
    ],
)
def test_what_is_wrong_with_an_answer_of_the_relay_is_seen(status: int, body: Any) -> None:
    assert relay.wrong_with_honest_engine(status, body)
    assert relay.wrong_with_hostile_engine(status, body)


def test_thirty_two_threads(models_dir: Path) -> None:
    calls, wrong = threads.differences(HERMES, models_dir, threads=32, rounds=1, cases=4)
    assert calls == 32 * 16
    assert not wrong


@pytest.fixture
def broken(models_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes a deployment whose /detokenize does what it is given."""
    from handlers import derender_endpoints, server

    def make(endpoint: Any) -> Deployment:
        routes = tuple(
            replace(route, endpoint=json_endpoint(endpoint)) if route.path == "/detokenize" else route
            for route in derender_endpoints.DERENDER.routes
        )
        monkeypatch.setattr(server, "DERENDER", replace(derender_endpoints.DERENDER, routes=routes))
        monkeypatch.setattr("tests.fuzz.deployment.CPU_SECONDS", 0.2)
        return Deployment(PLAIN, models_dir, Tally())

    return make


def test_a_fault_and_a_hang_are_found_and_kept(broken: Any, tmp_path: Path) -> None:
    def fails(*given: Any) -> Any:
        raise KeyError("x")

    def hangs(*given: Any) -> Any:
        until = time.monotonic() + 20
        while time.monotonic() < until:
            pass

    request = Request("x", "POST", "/detokenize", b"{}", {"content-type": "application/json"})
    for endpoint, why in ((fails, "status 500"), (hangs, "s of CPU")):
        deployment = broken(endpoint)
        assert deployment.send(request) is None
        (fault,) = deployment.tally.faults
        assert why in fault.why
        assert fault.save(tmp_path / "kept").read_text()
        deployment.close()


# Found by the long run: each such part costs vLLM's types 50 microseconds, so these took 5 seconds of CPU.
@pytest.mark.parametrize("kind", ["render", "derender"])
@pytest.mark.parametrize("part", [2**32 - 1, None, []])
def test_odd_content_parts_are_cheap(kind: str, part: Any, models_dir: Path) -> None:
    chat: Any = {"model": "qwen3", "messages": [{"role": "user", "content": [part] * 50_000}]}
    paths = {"render": "/v1/chat/completions/render", "derender": CHAT}
    answer = {"request_id": "r", "choices": [{"index": 0, "token_ids": [9707], "finish_reason": "stop"}]}
    body = {"generate_response": answer, "chat_request": chat} if kind == "derender" else chat
    raw = json.dumps(body).encode()
    tally = Tally()
    deployment = Deployment(HERMES, models_dir, tally)
    request = Request("x", "POST", paths[kind], raw, {"content-type": "application/json"})
    deployment.send(request)  # the first also pays for imports
    tally.slowest = 0.0
    answered = deployment.send(request)
    deployment.close()
    assert not described(tally)
    assert answered is not None
    assert answered[0] == 400
    assert "content parts" in answered[1]["error"]["message"]
    assert tally.slowest < CHEAP


# Found by the same, at 20 microseconds and more for a few bytes each.
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("messages", [{}] * 50_000),
        ("messages", [None] * 50_000),
        ("messages", [{"role": "user"}] * 50_000),
        ("chat_template_kwargs", {str(number): 0 for number in range(50_000)}),
        ("vllm_xargs", {str(number): {} for number in range(50_000)}),
    ],
)
def test_many_odd_parts_are_cheap(field: str, value: Any, models_dir: Path) -> None:
    chat: Any = {"model": "qwen3", "messages": [{"role": "user", "content": "x"}], field: value}
    answer = {"request_id": "r", "choices": [{"index": 0, "token_ids": [9707], "finish_reason": "stop"}]}
    bodies = {"/v1/chat/completions/render": chat, CHAT: {"generate_response": answer, "chat_request": chat}}
    tally = Tally()
    deployment = Deployment(HERMES, models_dir, tally)
    for path, body in bodies.items():
        request = Request("x", "POST", path, json.dumps(body).encode(), {"content-type": "application/json"})
        deployment.send(request)  # the first also pays for imports
        tally.slowest = 0.0
        answered = deployment.send(request)
        assert answered is not None
        assert answered[0] == 400
        assert "at most 1000 are read" in answered[1]["error"]["message"]
        assert tally.slowest < CHEAP
    deployment.close()
    assert not described(tally)


# Found by the same: the answer named twenty faults, but all of them were collected first.
@pytest.mark.parametrize("place", ["chat_request", "generate_response", "generate_chunk"])
def test_many_schema_errors_are_cheap(place: str, models_dir: Path) -> None:
    body: dict[str, Any] = {"chat_request": {"model": "qwen3", "messages": [{}]}}
    answer: dict[str, Any] = {
        "request_id": "r",
        "choices": [{"index": 0, "token_ids": [9707], "finish_reason": "stop"}],
    }
    if place == "chat_request":
        body |= {"generate_response": answer}
        body[place]["tools"] = [{}] * 20_000
    else:
        body |= {place: {**answer, "choices": [{}] * 20_000}, "stream": place == "generate_chunk"}
    tally = Tally()
    deployment = Deployment(HERMES, models_dir, tally)
    request = Request("x", "POST", CHAT, json.dumps(body).encode(), {"content-type": "application/json"})
    deployment.send(request)
    tally.slowest = 0.0
    answered = deployment.send(request)
    deployment.close()
    assert answered is not None
    assert answered[0] == 400
    # Our own lists end at their first fault; vLLM's are only counted.
    told = "too many to list" if place == "chat_request" else "1 validation error:"
    assert told in answered[1]["error"]["message"]
    assert tally.slowest < CHEAP


def test_more_ids_than_any_context_holds_are_not_turned_into_text(models_dir: Path) -> None:
    deployment = Deployment(PLAIN, models_dir, Tally())
    for count, status in ((MAX_DECODED_IDS + 1, 400), (2, 200)):
        body = json.dumps({"tokens": [94] * count}).encode()
        answered = deployment.send(Request("x", "POST", "/detokenize", body, {"content-type": "application/json"}))
        assert answered is not None
        assert answered[0] == status
        assert status == 200 or f"at most {MAX_DECODED_IDS}" in answered[1]["error"]["message"]
    deployment.close()


@pytest.mark.parametrize(("power", "found"), [(0, 0.0), (1, 1.0), (1.2, 1.2), (2, 2.0), (3, 3.0)])
def test_growth_is_found(power: float, found: float) -> None:
    """By counted costs: what the fuzzer looks for in CPU time."""
    assert growth.exponent(lambda size: size**power * 1e-6 * (power > 0), 64) == pytest.approx(found)


@pytest.mark.parametrize(
    ("sizes", "peaks", "found"),
    [
        ((100, 400), (1_000, 4_000), ""),
        ((100, 400), (100, 1_600), "power 2.00"),
        ((100, 400), (1_000, 13_000), "40.0 bytes"),
    ],
)
def test_memory_that_grows_is_found(sizes: tuple[int, int], peaks: tuple[int, int], found: str) -> None:
    why = growth.excess("'{' in chunks" if not found else "brackets", sizes, peaks)
    assert (found in why) if found else not why


def test_the_bytes_of_each_kind_are_written_down() -> None:
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    for kind, most in growth.BYTES.items():
        assert f"| {kind} | {most} |" in page


def test_no_work_grows_faster_than_what_is_sent(models_dir: Path) -> None:
    tally = Tally()
    bodies = growth.plain_bodies()
    short = {
        name: bodies[name]
        for name in ("unfinished bytes", "stop strings", "gathered chunks", "digits", "choices", "tools")
    }
    found = growth.run(PLAIN, models_dir, short, tally)
    assert not described(tally)
    assert max(found.values()) > 0.5, "measured nothing"
