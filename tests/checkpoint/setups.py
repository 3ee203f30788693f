"""Deployments for the tests: a tokenizer, a pair of parsers, a request."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from vllm.reasoning import ReasoningParserManager
from vllm.tool_parsers import ToolParserManager

from core.tokenizer import Tokenizer
from core.upstream.version import vllm_version
from infra.slice.versions import NEWEST
from tests.checkpoint import formats
from tests.checkpoint.streams import (
    CALLS,
    Chunk,
    Setup,
    chunks,
    model_config,
    mutate,
    output,
    parser_class,
    request,
)

Pair = tuple[str | None, str | None]
Result = TypeVar("Result")
TOOL_PARSERS: list[str] = ToolParserManager.list_registered()
REASONING_PARSERS: list[str] = ReasoningParserManager.list_registered()
# These need a package that is not installed, and are refused.
WITHOUT_PACKAGE = frozenset({"cohere_command3", "cohere_command4"})
# Tool parsers whose state is no plain data, by version of vLLM: they are replayed.
REPLAYED = {"0.31.0": frozenset({"minimax_m3", "step3p5"})}.get(vllm_version(), frozenset())
# Whether the openai parser of this version of vLLM ends a stream with an error where a header is malformed.
HARMONY_IS_STRICT = vllm_version() == "0.31.0"
PAIRS: list[Pair] = [
    pair
    for pair in (
        *((tool, None) for tool in TOOL_PARSERS),
        *((None, reasoning) for reasoning in REASONING_PARSERS),
        *((name, name) for name in TOOL_PARSERS if name in REASONING_PARSERS),
        ("openai", "openai_gptoss"),
        *(pair for pair in formats.PAIRS if pair[0] in TOOL_PARSERS and pair[1] in REASONING_PARSERS),
    )
    if not WITHOUT_PACKAGE.intersection(pair) and pair[0] not in REPLAYED
]
TOOL_CHOICES: tuple[Any, ...] = (
    "auto",
    "auto",
    "auto",
    "required",
    "none",
    {"type": "function", "function": {"name": "get_weather"}},
)
TEMPLATE_KWARGS: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"enable_thinking": False},
    {"enable_thinking": True, "thinking": True, "reasoning_effort": "high"},
    {"thinking_mode": "enabled"},
    {"force_nonempty_content": True},
)
# How the prompt ends: thinking may be left open by it, or closed.
PROMPT_ENDS = ("", "", "<think>\n", "<think>\n\n</think>\n\n", "</think>")


def healthy(run: Callable[[], Result]) -> Result:
    """What ``run`` gives; once more where a parser of an older version of vLLM raises, as some do at an odd output."""
    for _ in range(20):
        try:
            return run()
        except Exception:
            if vllm_version() == NEWEST:
                raise
    raise AssertionError("the parser raises at every output")


@dataclass
class Deployments:
    """Parser classes by pair, with the tokenizer that they need."""

    load: Callable[[str, bool], Tokenizer]

    def __post_init__(self) -> None:
        self._classes: dict[Pair, Any] = {}

    def tokenizer(self, pair: Pair) -> Tokenizer:
        if is_harmony(pair):
            return self.load("gpt-oss", False)
        return self.load("families", bool({"hf", "beam"}.intersection(pair)))

    def setup(self, pair: Pair, *, model_type: str = "qwen3", **fields: Any) -> Setup:
        tokenizer = self.tokenizer(pair)
        if pair not in self._classes:
            self._classes[pair] = parser_class(*pair, tokenizer, is_harmony(pair))
        config = model_config("gpt_oss" if is_harmony(pair) else model_type)
        return Setup(tokenizer, self._classes[pair], config, request(**fields))

    def stream(self, pair: Pair, rng: random.Random, mutated: bool) -> tuple[Setup, list[Chunk], list[int]]:
        """A request with an output that answers it, in chunks, and the prompt's ids."""
        tokenizer = self.tokenizer(pair)
        choice = rng.choice(TOOL_CHOICES)
        setup = self.setup(
            pair,
            model_type=rng.choice(("qwen3", "kimi_k2")),
            tool_choice=choice,
            chat_template_kwargs=rng.choice(TEMPLATE_KWARGS),
            include_reasoning=rng.random() > 0.1,
            parallel_tool_calls=rng.random() > 0.1,
        )
        calls = rng.choice((*CALLS, ()))
        text = output(*pair, calls, rng, think=rng.random() < 0.7, content=rng.random() < 0.6)
        # Forced calls are bare JSON, where the engine follows the grammar.
        if choice == "required" and rng.random() < 0.6:
            text = formats.json_array(key="parameters")(calls or CALLS[0])
        elif isinstance(choice, dict) and rng.random() < 0.6:
            text = formats.dump((calls or CALLS[0])[0].arguments)
        ids = tokenizer.encode(text or "ok", add_special_tokens=False)
        if mutated:
            ids = mutate(ids, list(tokenizer.get_added_vocab().values()), rng) or ids
        prompt = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n" + rng.choice(PROMPT_ENDS)
        prompt_ids = tokenizer.encode(prompt, add_special_tokens=False)
        # vLLM's reasoning parser of this family takes one token at a time.
        size = 1 if pair[1] == "hunyuan_a13b" else rng.choice((1, 3, 7, rng, 40))
        return setup, list(chunks(tokenizer, prompt_ids, ids, size, rng.choice(("stop", "length")))), prompt_ids


def is_harmony(pair: Pair) -> bool:
    return pair[0] == "openai" or pair[1] == "openai_gptoss"
