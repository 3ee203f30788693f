"""One application in many threads: render with truncation, derender and streams at once, answers as one after another.

A tokenizer that is changed for one request while another reads it fails with "Already borrowed", or answers with the
other's truncation: both would show here.
"""

import copy
import json
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

from tests.golden import corpus
from tests.golden.application import InProcess, make_app
from tests.golden.corpus import Case, Json, Server
from tests.golden.replay import run_case


def jobs(server: Server, cases: int) -> list[Case]:
    """Recorded cases of one configuration, and renders that truncate a long prompt each in its own way."""
    key = corpus.server_key(server)
    recorded = [case for case in corpus.load() if corpus.server_key(case["server"]) == key and case["core"]]
    found = random.Random(0).sample(recorded, min(cases, len(recorded)))
    text = " ".join(f"word{number} 漢字" for number in range(600))
    model = server["model"]
    for number in range(4):
        common = {"model": model, "truncate_prompt_tokens": (number * 97 + 1) % 200 + 1}
        side = {"truncation_side": ("left", "right")[number % 2]} if number % 3 else {}
        completion = {**common, **side, "prompt": [text, f"{number} {text}"], "max_tokens": 4}
        chat = {**common, "messages": [{"role": "user", "content": f"{number} {text}"}], "max_tokens": 4}
        found.append({"endpoint": "/v1/completions/render", "request": completion})
        found.append({"endpoint": "/v1/chat/completions/render", "request": chat})
        found.append({"endpoint": "/tokenize", "request": {"model": model, "prompt": f"{number} {text}"}})
    return found


def differences(server: Server, models_dir: Path, threads: int, rounds: int, cases: int = 25) -> tuple[int, list[str]]:
    """(calls made in threads, what differed from the serial answers or failed)."""
    app = make_app(server, models_dir)
    work = jobs(server, cases)
    serial = InProcess(app)
    expected = [_answer(case, serial) for case in work]
    serial.close()
    assert sum(answer["status"] == 200 for answer in expected if isinstance(answer, dict)) >= len(work) // 3
    together = Barrier(threads)

    def one(number: int) -> list[str]:
        process, wrong = InProcess(app), []
        order = list(range(len(work))) * rounds
        random.Random(number).shuffle(order)
        together.wait(60)
        for index in order:
            try:
                answer: Any = _answer(work[index], process)
            except Exception as error:
                answer = f"{type(error).__name__}: {error}"
            if answer != expected[index]:
                wrong.append(f"{work[index].get('id', work[index]['endpoint'])}: {json.dumps(answer)[:300]}")
        process.close()
        return wrong

    with ThreadPoolExecutor(threads) as pool:
        found = [text for wrong in pool.map(one, range(threads)) for text in wrong]
    return threads * rounds * len(work), found


def _answer(case: Case, process: InProcess) -> Json:
    answer = run_case(copy.deepcopy(case), process.call)
    if isinstance(answer, dict) and isinstance(answer["body"], dict):
        return {**answer, "body": {key: value for key, value in answer["body"].items() if key != "created"}}
    return answer
