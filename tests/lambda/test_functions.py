"""The built functions under Lambda's emulator: what only the real runtime shows."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infra.emulator import Emulator, InvokeError, Runtime
from infra.emulator.process import can_mount
from infra.package.build import Artefact
from infra.package.functions import FUNCTIONS
from infra.package.target import Target
from tests.support.faulty_s3 import CREDENTIALS, Fault, faulty_s3
from tests.support.gateway import event, recorded_event
from tests.support.models import tokenizer_in

Start = Callable[..., Emulator]
Invoke = Callable[[str, dict[str, Any]], dict[str, Any]]
BuildOf = Callable[[str, Target], Artefact]
CHAT = "/v1/chat/completions/derender"
REQUEST = {"model": "qwen3", "messages": [{"role": "user", "content": "Hi"}]}
LIMIT = 6_291_556
ONE_OF_EACH_KIND = {
    "render": ["render-chat"],
    "render-images": ["render-chat"],
    "derender": ["derender-chat-tools", "derender-chat-stream-first"],
    "relay": ["relay-chat", "relay-chat-stream"],
}


def lines_of(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]


def test_a_stream_of_a_thousand_chunks(start: Start, models_dir: Path) -> None:

    encode = tokenizer_in(models_dir / "qwen3").encode
    thought = "One thing after another. " * 60
    text = "word " * 300
    call = '<tool_call>\n{"name": "f", "arguments": {"text": "' + "many words " * 200 + '"}}\n</tool_call>'
    ids = encode(f"<think>\n{thought}\n</think>\n\n{text}{call}")
    assert len(ids) >= 1000
    ids = ids + encode("<|im_end|>")
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
    request = {**REQUEST, "stream": True, "tools": [tool]}
    derender = start("derender", DERENDER_STATE_KEY="k" * 32)
    state, deltas, sizes = None, [], []
    for number, token in enumerate(ids):
        finish = "stop" if number == len(ids) - 1 else None
        choice = {"index": 0, "token_ids": [token], "finish_reason": finish}
        body = {"stream": True, "generate_chunk": {"request_id": "s", "choices": [choice]}, "stream_state": state}
        body |= {"chat_request": request, "prompt_token_ids": [1, 2, 3] if number == 0 else None}
        answer = derender.invoke(event(CHAT, body))
        assert answer["statusCode"] == 200, (number, answer["body"])
        content = json.loads(answer["body"])
        state = content["stream_state"]
        sizes.append(len(answer["body"]))
        deltas += [choice["delta"] for choice in content["chunk"]["choices"]]
    assert "".join(delta.get("reasoning") or "" for delta in deltas).strip() == thought.strip()
    assert "".join(delta.get("content") or "" for delta in deltas).strip() == text.strip()
    arguments = "".join(
        call["function"].get("arguments") or "" for delta in deltas for call in delta.get("tool_calls") or []
    )
    assert json.loads(arguments) == {"text": "many words " * 200}
    assert max(sizes) < 16_000, "the state does not grow with the stream"


@pytest.mark.parametrize("size", [LIMIT - 400, LIMIT + 400], ids=["fits", "too large"])
def test_an_answer_beyond_lambdas_limit_is_a_413(invoke: Invoke, size: int) -> None:
    """Sent as gzip: the request is small, the answer repeats what it expands to."""
    choice = {"index": 0, "token_ids": [9707], "finish_reason": "stop"}
    body = {"generate_response": {"request_id": "r", "choices": [choice]}, "chat_request": REQUEST}
    empty = {**body, "generate_response": {**body["generate_response"], "kv_transfer_params": {"x": ""}}}  # type: ignore[dict-item]
    answer = invoke("derender", packed(empty))
    around = len(json.dumps({k: v for k, v in answer.items() if k != "json"}, ensure_ascii=False))
    empty["generate_response"]["kv_transfer_params"]["x"] = "y" * (size - around)
    answer = invoke("derender", packed(empty))
    if size < LIMIT:
        assert answer["statusCode"] == 200
        assert len(answer["json"]["kv_transfer_params"]["x"]) == size - around
    else:
        assert answer["statusCode"] == 413
        assert answer["json"]["error"]["type"] == "RequestEntityTooLargeError"
        assert str(LIMIT) in answer["json"]["error"]["message"]


@pytest.mark.parametrize("text", ["é" * 3_500_000, '"' * 2_200_000, "\u2028" * 2_000_000, "\U0001f600" * 1_700_000])
def test_what_takes_more_bytes_than_characters_is_counted(invoke: Invoke, text: str) -> None:
    choice = {"index": 0, "token_ids": [9707], "finish_reason": "stop"}
    response = {"request_id": "r", "choices": [choice], "kv_transfer_params": {"x": text}}
    answer = invoke("derender", packed({"generate_response": response, "chat_request": REQUEST}))
    assert answer["statusCode"] == 413


def packed(body: Any) -> dict[str, Any]:
    return event(CHAT, gzip.compress(json.dumps(body).encode(), 1), headers={"content-encoding": "gzip"})


def test_both_event_versions_are_answered_alike(invoke: Invoke) -> None:
    one, two = (
        invoke("derender", recorded_event("derender-chat-v1")),
        invoke("derender", recorded_event("derender-chat")),
    )
    assert one["statusCode"] == two["statusCode"] == 200
    assert one["json"]["choices"] == two["json"]["choices"]


@pytest.mark.parametrize("event", [{}, {"source": "aws.events"}, {"version": "2.0"}, [], "warm", None, 7])
def test_what_is_not_a_request_is_a_400(invoke: Invoke, event: Any) -> None:
    answer = invoke("derender", event)
    assert answer["statusCode"] == 400
    assert set(answer["json"]["error"]) == {"message", "type", "param", "code"}


def test_bad_bodies_are_answered_in_the_error_shape(invoke: Invoke) -> None:
    for body, status in (("{", 400), ("[]", 400), ({"generate_response": {"choices": []}, "model": "other"}, 404)):
        answer = invoke("derender", event(CHAT, body))
        assert (answer["statusCode"], answer["json"]["error"]["code"]) == (status, status)
    damaged = {**event(CHAT, "!!"), "isBase64Encoded": True}
    assert invoke("derender", damaged)["statusCode"] == 400


@pytest.mark.skipif(not can_mount(), reason="no right to mount: nothing can be made read-only for a process")
@pytest.mark.parametrize("function", [function.name for function in FUNCTIONS])
def test_a_read_only_file_system_and_no_home(start: Start, tmp_path: Path, function: str) -> None:
    emulator = start(function, read_only=True)
    for name in ONE_OF_EACH_KIND[function]:
        answer = emulator.invoke(recorded_event(name))
        assert answer["statusCode"] == 200, answer["body"]
    assert list((tmp_path / "tmp").iterdir()) == [], "nor is anything left in /tmp"


@pytest.mark.skipif(not can_mount(), reason="no right to mount")
def test_the_read_only_file_system_is_read_only(runtime: Runtime, tmp_path: Path) -> None:
    """The proof that the test above can fail."""
    for name in ("function", "tmp"):
        (tmp_path / name).mkdir()
    (tmp_path / "function" / "f.py").write_text(
        "import os\n"
        "def handler(event, context):\n"
        "    found = {}\n"
        "    for path in (__file__ + '.new', os.path.expanduser('~/new'), os.environ['TMPDIR'] + '/new'):\n"
        "        try: open(path, 'w').close(); found[path[-10:]] = 'written'\n"
        "        except OSError as exc: found[path[-10:]] = exc.strerror\n"
        "    return [list(found.values()), 'HOME' in os.environ]\n"
    )
    with Emulator(runtime, tmp_path / "function", "f.handler", {}, tmp_path / "tmp", read_only=True) as emulator:
        written, has_home = emulator.invoke({})
    assert written == ["Read-only file system", "Read-only file system", "written"]
    assert not has_home


def test_a_wrong_setting_stops_the_start_with_its_name(start: Start, tmp_path: Path) -> None:
    emulator = start("derender", DERENDER_TOOL_CALL_PARSER="nonesuch")
    with pytest.raises(InvokeError, match="nonesuch"):
        emulator.invoke(recorded_event("health"))


def test_the_log_counts_and_never_quotes(start: Start, tmp_path: Path) -> None:
    derender, render = start("derender"), start("render")
    derender.invoke(recorded_event("derender-chat-tools"))
    derender.invoke(recorded_event("derender-chat-stream-gathered"))
    render.invoke(recorded_event("render-chat-tools"))
    lines = [line for line in lines_of(tmp_path / "log") if line["message"] == "request"]
    tools, stream, rendered = lines
    assert tools["endpoint"] == CHAT
    assert (tools["status"], tools["cold_start"], stream["cold_start"]) == (200, True, False)
    assert tools["completion_tokens"] > 20
    assert (stream["chunks"], stream["prompt_tokens"]) == (4, 0)
    assert rendered["prompt_tokens"] > 100
    assert tools["gateway_request_id"] == "JKJaXmPLvHcESHA="
    assert tools["request_id"] != stream["request_id"]
    assert 0 < stream["duration_ms"] < 10_000
    directive = tools["_aws"]["CloudWatchMetrics"][0]
    assert all(isinstance(tools[metric["Name"]], int | float) for metric in directive["Metrics"])
    assert all(name in tools for names in directive["Dimensions"] for name in names)
    text = (tmp_path / "log").read_text()
    for quoted in ("Paris", "weather", "Two and two", "It is 4", "get_weather"):
        assert quoted not in text


def test_a_bundle_in_s3_that_is_not_there_yet(
    start: Start, models_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not there: a 503 and one line. There, but S3 fails: the same. Then the next invoke finds it."""
    from core.bundle.contents import bundle_contents
    from core.bundle.folder import FolderFiles
    from core.bundle.s3 import parse_address, upload

    with faulty_s3() as server:
        server.client().create_bucket(Bucket="models")
        settings = {"DERENDER_MODEL": "s3://models/qwen3/v1", "AWS_ENDPOINT_URL_S3": server.url, **CREDENTIALS}
        derender = start("derender", **settings)
        event = recorded_event("derender-chat")
        answer = derender.invoke(event)
        assert answer["statusCode"] == 503
        error = json.loads(answer["body"])["error"]
        assert (error["type"], error["code"]) == ("ServiceUnavailableError", 503)
        assert "s3://" not in error["message"]

        for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL_S3": server.url}.items():
            monkeypatch.setenv(name, value)
        upload(parse_address("s3://models/qwen3/v1"), bundle_contents(FolderFiles(models_dir / "qwen3")))
        server.faults["/derender-vocab.bin"] = Fault(cut=1000)
        assert derender.invoke(event)["statusCode"] == 503
        server.faults.clear()
        assert derender.invoke(event)["statusCode"] == 200
        reasons = [line["reason"] for line in lines_of(tmp_path / "log") if "reason" in line]
        assert len(reasons) == 3, "one line at the start, and one for each request that was refused"
        assert all("no such object" in reason for reason in reasons[:2])
        assert "derender-vocab.bin" in reasons[2]
        assert not any(request.endswith("v1/tokenizer.json") for request in server.requests if "GET" in request)

        # A second start in the same environment: nothing is asked of S3.
        derender.stop()
        server.requests.clear()
        again = start("derender", **settings)
        assert again.invoke(event)["statusCode"] == 200
        assert server.requests == []


SNAPSHOT = """
import json, os, socket, sys
sys.path.insert(0, os.getcwd())
from handlers.{function} import handler
sockets = []
for fd in map(int, os.listdir("/proc/self/fd")):
    try:
        if socket.socket(fileno=os.dup(fd)).family in (socket.AF_INET, socket.AF_INET6):
            sockets.append(fd)
    except OSError:
        pass
event = json.load(open(sys.argv[1]))
loaded = set(sys.modules)
answers = []
for _ in range(2):  # each child is what a restored snapshot is: the same memory
    out, into = os.pipe()
    if os.fork() == 0:
        answer = handler(event, None)
        late = sorted(set(sys.modules) - loaded)
        os.write(into, json.dumps([answer, late]).encode())
        os._exit(0)
    os.close(into)
    answers.append(json.load(os.fdopen(out)))
    os.wait()
print(json.dumps([answers, len(sockets)]))
"""


@pytest.mark.parametrize(
    ("function", "event"),
    [("derender", "derender-chat-tools"), ("derender", "models"), ("render", "render-chat")],
)
def test_a_snapshot_holds_everything_loaded_and_nothing_unique(
    runtime: Runtime, artefact_of: BuildOf, demo_settings: dict[str, str], tmp_path: Path,
    function: str, event: str,
) -> None:  # fmt: skip
    content = recorded_event(event)
    if content.get("body"):
        body = json.loads(content["body"])
        body.get("generate_response", {}).pop("request_id", None)  # so that the id is drawn here
        content["body"] = json.dumps(body)
    (tmp_path / "event.json").write_text(json.dumps(content))
    environ = {
        **demo_settings,
        "PYTHONPATH": str(runtime.packages),
        "AWS_LAMBDA_INITIALIZATION_TYPE": "snap-start",
        "PATH": os.environ["PATH"],
    }
    done = subprocess.run(
        [str(runtime.python), "-S", "-c", SNAPSHOT.format(function=function), str(tmp_path / "event.json")],
        cwd=artefact_of(function, runtime.target).unpacked(),
        env=environ,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert not any('"message":"request"' in line for line in lines[:-3]), "the warming requests are not logged"
    ((first, late), (second, _)), sockets = json.loads(lines[-1])
    ids = [ids_of(json.loads(answer["body"])) for answer in (first, second)]
    assert ids[0]
    assert not ids[0] & ids[1], "ids are drawn after the restore"
    assert late == [], "the first request loads nothing"
    assert sockets == 0, "no connection is kept over the snapshot"


def ids_of(value: Any) -> set[str]:
    """All ids that an answer holds: the values of ``id`` and ``request_id``, but for models' names."""
    found: set[str] = set()
    if isinstance(value, dict):
        for key, item in value.items():
            if key in ("id", "request_id") and isinstance(item, str) and item != "qwen3":
                found.add(item)
            found |= ids_of(item)
    elif isinstance(value, list):
        for item in value:
            found |= ids_of(item)
    return found


def test_no_version_is_published_without_its_model(
    runtime: Runtime, artefact_of: BuildOf, demo_settings: dict[str, str], tmp_path: Path
) -> None:
    environ = {
        **demo_settings,
        "DERENDER_MODEL": "s3://models/p",
        "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9",
        **CREDENTIALS,
        "TMPDIR": str(tmp_path),
        "PYTHONPATH": str(runtime.packages),
        "AWS_LAMBDA_INITIALIZATION_TYPE": "snap-start",
    }
    done = subprocess.run(
        [str(runtime.python), "-S", "-c", "import handlers.derender"],
        cwd=artefact_of("derender", runtime.target).unpacked(),
        env=environ,
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert "could not be loaded" in done.stderr
    assert "connection to S3 failed" in done.stdout
