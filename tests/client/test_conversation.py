"""Conversations of the client against real servers: sampled ids stay, and what broke is said."""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from derender_client import AsyncConversation, AsyncDerenderClient, Conversation, DerenderClient
from tests.support import processes

Json = dict[str, Any]
ROOT = Path(__file__).parents[2]
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}
ANSWER = '<think>\nOnce more.\n</think>\n\n\nI look:\n\n<tool_call>\n{"name":"get_weather",  "arguments":{"day": {1}}}\n</tool_call>'
REQUEST: Json = {"model": "qwen3", "tools": [TOOL], "logprobs": True}


@pytest.fixture(scope="module")
def untidy_engine(models_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An engine whose model spaces its calls as no template does."""
    rules = [{"match": r"day (\d+)", "answer": ANSWER}, {"match": "", "answer": "<think>\nBye.\n</think>\n\nSee you. "}]
    script = tmp_path_factory.mktemp("script") / "script.json"
    script.write_text(json.dumps({"rules": rules}))
    command = processes.engine(models_dir / "qwen3", "--script", str(script), "--served-model-name", "qwen3")
    with processes.process(*command) as url:
        yield url


def results(message: Json) -> list[Json]:
    return [
        {"role": "tool", "tool_call_id": call["id"], "content": f"day {number}"}
        for number, call in enumerate(message.get("tool_calls") or (), len(message.get("tool_calls") or ()))
    ]


def check(talk: Conversation | AsyncConversation, turns: int) -> None:
    """Every prompt begins with the last one and its output; the sample is that of the engine."""
    assert len(talk.turns) == turns
    assert talk.breaks == []
    (sample,) = talk.samples()
    assert sample.token_ids == talk.token_ids
    assert len(sample.sampled) == len(sample.logprobs) == len(sample.token_ids)
    at = 0
    for number, turn in enumerate(talk.turns):
        assert turn.token_ids == sample.token_ids[: len(turn.token_ids)]
        begin, end = len(turn.prompt_token_ids), len(turn.token_ids)
        assert not any(sample.sampled[at:begin])
        assert all(sample.sampled[begin:end])
        assert sample.logprobs[begin:end] == turn.logprobs
        assert turn.mode == ("append" if number else "plain")
        assert turn.sampled_spans == [(len(one.prompt_token_ids), len(one.token_ids)) for one in talk.turns[:number]]
        at = end


def test_whole_and_streamed(service: str, untidy_engine: str) -> None:
    with DerenderClient(service, untidy_engine) as client:
        talk = Conversation(client, REQUEST)
        talk.add({"role": "user", "content": "day 0"})
        for turn in range(6):
            if turn % 2:
                chunks = list(talk.stream(gather_tokens=1 + turn))
                assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
            else:
                answer = talk.generate()
                assert answer["choices"][0]["message"]["tool_calls"]
            talk.add(*results(talk.messages[-1]))
        check(talk, 6)


def test_async(service: str, untidy_engine: str) -> None:
    async def run() -> AsyncConversation:
        async with AsyncDerenderClient(service, untidy_engine) as client:
            talk = AsyncConversation(client, REQUEST)
            talk.add({"role": "user", "content": "day 0"})
            await talk.generate()
            talk.add(*results(talk.messages[-1]))
            async for _ in talk.stream(gather_tokens=4, gather_ms=5):
                pass
            talk.add(*results(talk.messages[-1]))
            await talk.generate(max_tokens=5)
            return talk

    check(asyncio.run(run()), 3)


def test_a_turn_that_breaks_is_named(service: str, untidy_engine: str) -> None:
    """An edited answer and the policy "exact" both break; the samples are what still hangs together."""
    with DerenderClient(service, untidy_engine) as client:
        talk = Conversation(client, REQUEST)
        talk.add({"role": "user", "content": "day 0"})
        talk.generate()
        talk.messages[-1]["content"] = "I look away:"
        talk.add(*results(talk.messages[-1]))
        talk.generate()
        (broken,) = talk.breaks
        assert broken.turn == 1
        assert broken.reason == "the last answer is not the one that was sampled"
        assert [sample.turns for sample in talk.samples()] == [[0], [1]]
        exact = Conversation(client, REQUEST, policy="exact")
        exact.add({"role": "user", "content": "day 0"})
        for _ in range(2):
            exact.generate()
            exact.add(*results(exact.messages[-1]))
        assert [one.reason for one in exact.breaks] == ["the text of the last answer is another one"]


def test_a_stream_that_is_left_does_not_count(service: str, untidy_engine: str) -> None:
    with DerenderClient(service, untidy_engine) as client:
        talk = Conversation(client, REQUEST)
        talk.add({"role": "user", "content": "day 0"})
        stream = talk.stream()
        next(stream)
        stream.close()
        assert talk.turns == []
        assert len(talk.messages) == 1


def test_one_choice_a_turn() -> None:
    client = DerenderClient("http://127.0.0.1:1", "http://127.0.0.1:1")
    with pytest.raises(ValueError, match="one choice"):
        Conversation(client, {"n": 2})
    with pytest.raises(ValueError, match="gather_tokens"):
        Conversation(client, {}).stream(gather_tokens=0)


CALL = 'Let me see:\n\n  <tool_call>\n{"name":"get_weather",   "arguments": {"city":"{1}"}}\n</tool_call>\n'


def test_the_example_of_a_training_sample(service: str, models_dir: Path, tmp_path: Path) -> None:
    """A chat of 20 turns, ten of them calls that are spaced as no template spaces them: one unbroken sequence."""
    rules = [
        {"match": r"weather in ([\w ]+\w)\?", "answer": CALL},
        {"match": r"<tool_response>\s*(.+?)\s*</tool_response>", "answer": " It says:  {1}\n"},
    ]
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"rules": rules}))
    out = tmp_path / "sample.json"
    command = processes.engine(models_dir / "qwen3", "--script", str(script), "--served-model-name", "qwen3")
    with processes.process(*command) as url:
        run = subprocess.run(
            [sys.executable, "examples/training_sample.py", "--service", service, "--engine", url, "--out", str(out)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("20 turns, 10 with tool calls: one sequence of ")
    sample = json.loads(out.read_text())
    tokenizer = Tokenizer.from_file(str(models_dir / "qwen3" / "tokenizer.json"))
    spans = [
        [number for number, _ in ids]
        for sampled, ids in itertools.groupby(zip(sample["token_ids"], sample["sampled"], strict=True), lambda x: x[1])
        if sampled
    ]
    texts = [tokenizer.decode(span, skip_special_tokens=False) for span in spans]
    assert len(texts) == 20
    assert texts[0] == CALL.replace("{1}", "Paris") + "<|im_end|>"
    assert texts[1] == " It says:  12 degrees and rain in Paris\n<|im_end|>"
    assert all(
        (value is not None) == sampled for value, sampled in zip(sample["logprobs"], sample["sampled"], strict=True)
    )
