"""Replaying recorded cases: over any call function, and from the command line against a running server.

    python -m tests.golden.replay --url http://127.0.0.1:8000 --server '{"model": "qwen3"}' [FILE ...]

Only the cases recorded for exactly that server configuration are run; `--list` shows the configurations.
It must never build an application: it sees only requests and answers.
"""

import argparse
import copy
import json
import sys
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.golden import corpus
from tests.golden.corpus import Case, Json
from tests.golden.normal_form import IdNames, state_summary
from tests.golden.verdict import judge

Call = Callable[[str, str, bytes, dict[str, str]], tuple[int, Json]]
"""(method, path, body, headers) -> (status, decoded JSON, or the text where the body is not JSON)."""

JSON_HEADERS = {"content-type": "application/json"}


def run_case(case: Case, call: Call) -> Json:
    """Run one case; the answer, to be given to `judge`.

    A stream ends at its first answer that is not 200, as the recording does.
    """
    names = IdNames()
    if "stream" not in case:
        status, body = call(case.get("method", "POST"), case["endpoint"], request_body(case), request_headers(case))
        return {"status": status, "body": names.normalise(body)}
    return _run_stream(case, call, names)


def request_body(case: Case) -> bytes:
    """The body of a one-shot case, as it was sent."""
    if "request_raw" in case:
        return str(case["request_raw"]).encode("utf-8")
    return json.dumps(case["request"]).encode("utf-8") if "request" in case else b""


def request_headers(case: Case) -> dict[str, str]:
    return dict(case.get("headers", JSON_HEADERS))


def _run_stream(case: Case, call: Call, names: IdNames) -> list[Json]:
    common = case["stream"]["common"]
    states: dict[int, Json] = {}
    answers: list[Json] = []
    for chunk in case["stream"]["chunks"]:
        # One state per choice; a chunk without choices (the usage chunk) goes with choice 0.
        index = chunk["choices"][0]["index"] if chunk.get("choices") else 0
        body = {"stream": True, **common, "generate_chunk": chunk, "stream_state": states.get(index)}
        status, reply = call("POST", case["endpoint"], json.dumps(body).encode("utf-8"), JSON_HEADERS)
        if status != 200:
            answers.append({"status": status, "body": names.normalise(reply)})
            break
        states[index] = reply["stream_state"]
        # The chunk is normalised before the state: ids are numbered in this order in the recording.
        answered = names.normalise(reply["chunk"])
        answers.append({"status": status, "chunk": answered, "state": state_summary(reply["stream_state"], names)})
    return answers


def http_call(base_url: str) -> Call:
    """A call function for a running server."""

    def call(method: str, path: str, raw: bytes, headers: dict[str, str]) -> tuple[int, Json]:
        data = raw if method == "POST" else None
        request = urllib.request.Request(base_url.rstrip("/") + path, data=data, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=120) as response:
                status, body = response.status, response.read()
        except urllib.error.HTTPError as error:
            status, body = error.code, error.read()
        except urllib.error.URLError as error:
            raise SystemExit(f"no answer from {base_url}: {error.reason}") from error
        try:
            return status, json.loads(body)
        except ValueError:
            return status, body.decode("utf-8", "replace")

    return call


def _list_servers(cases: list[Case]) -> None:
    counts = Counter(json.dumps(case["server"], ensure_ascii=False) for case in cases)
    for server, count in sorted(counts.items()):
        print(f"{count:5} {server}")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.golden.replay", description=__doc__.split("\n")[0])
    parser.add_argument("--url", help="the running server")
    parser.add_argument("--server", type=json.loads, help="the configuration of the running server, as JSON")
    parser.add_argument("--list", action="store_true", help="show the recorded server configurations and stop")
    parser.add_argument("--mode", choices=corpus.MODES, default="checkpoint", help="the running server's state mode")
    parser.add_argument("--core", action="store_true", help="only the cases marked core")
    parser.add_argument("--limit", type=int, help="stop after so many cases")
    parser.add_argument("files", nargs="*", type=Path, help="case files; default: the whole corpus")
    options = parser.parse_args(arguments)
    cases = corpus.load(options.files or None)
    if options.list:
        _list_servers(cases)
        return 0
    if not options.url or options.server is None:
        parser.error("--url and --server are needed (or --list)")
    call, failed = http_call(options.url), 0
    chosen = [case for case in cases if case["server"] == options.server and (case["core"] or not options.core)]
    for case in chosen[: options.limit]:
        verdict = judge(case, run_case(copy.deepcopy(case), call), options.mode)
        if not verdict.accepted:
            failed += 1
            print(f"FAIL {case['id']}\n{verdict.report(limit=5)}")
    ran = len(chosen[: options.limit])
    print(f"{ran} cases, {failed} different")
    return 1 if failed or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
