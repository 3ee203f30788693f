"""What does a checkpoint weigh and cost, for outputs of growing length?

An output is half reasoning and half one call with a long text argument (all of
it the call, where a parser has no reasoning). At each length the parser is
carried from chunk to chunk for a while, one token a chunk, and the medians are
reported: bytes of JSON, characters as packed, and milliseconds to build a fresh
parser, to copy one from a prototype, and to unpack, restore, step, save and pack.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from time import perf_counter
from types import SimpleNamespace
from typing import Any

from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.chat_completion.stream_processor import ChatStreamProcessor
from vllm.parser import ParserManager

from benchmarks.harness.setups import model_folder
from benchmarks.harness.streams import LENGTHS, SETUPS, TOOL, Setup, output
from core.bundle.folder import FolderFiles
from core.parsing.checkpoint import Limits, Prototype, pack, restore, snapshot, unpack
from core.text.detokenizer import DecodeOptions, detokenize, seed_window
from core.tokenizer import load_tokenizer
from core.upstream.tables import installed_layouts

# Chunks over which the medians are taken, after as many to settle.
ROUNDS = 40
PHASES = ("build", "copy", "unpack", "restore", "step", "snapshot", "pack")
CARRYING = ("unpack", "restore", "snapshot", "pack")
_LAYOUTS = installed_layouts()
_KEEP_SPECIAL = DecodeOptions(skip_special=False, spaces_between=False)


class Deployment:
    """Builds fresh processors for one setup."""

    def __init__(self, setup: Setup) -> None:
        self.tokenizer = load_tokenizer(FolderFiles(model_folder(setup.model)))
        harmony = setup.model == "gpt-oss"
        self.parser_cls: Any = ParserManager.get_parser(
            tool_parser_name=setup.tool,
            reasoning_parser_name=setup.reasoning,
            enable_auto_tools=True,
            model_name=setup.model,
            is_harmony=harmony,
            tokenizer=self.tokenizer,
        )
        hf_config = SimpleNamespace(model_type="gpt_oss" if harmony else "other")
        self.config = SimpleNamespace(hf_config=hf_config, hf_text_config=hf_config, hf_overrides=None)
        self.request = ChatCompletionRequest.model_validate(
            {"messages": [{"role": "user", "content": "hi"}], "tools": [TOOL]}
        )
        self.kwargs = {"thinking": True}
        self.prototype = Prototype(self.parser(), _LAYOUTS)

    def parser(self) -> Any:
        return self.parser_cls(
            self.tokenizer, self.request.tools, chat_template_kwargs=self.kwargs, model_config=self.config
        )

    def processor(self, parser: Any) -> Any:
        return ChatStreamProcessor(self.request, parser, enable_auto_tools=True, parser_cls=self.parser_cls)


def measure(setup: Setup, deployment: Deployment, length: int) -> dict[str, float]:
    """Medians at ``length`` tokens: ``raw`` and ``packed`` bytes, and milliseconds by phase."""
    tokenizer = deployment.tokenizer
    prompt = tokenizer.encode(setup.prompt, add_special_tokens=False)
    ids = output(setup, tokenizer, length)
    window = seed_window(tokenizer, prompt, False)
    live = deployment.processor(deployment.parser())
    settle = min(ROUNDS, length // 2)
    for token in ids[: length - ROUNDS // 2 - settle]:
        text, window = detokenize(tokenizer, [token], window, _KEEP_SPECIAL)
        live.step(text, [token], None, prompt)
    packed = pack(snapshot(live, _LAYOUTS))
    times: dict[str, list[float]] = {phase: [] for phase in PHASES}
    sizes: list[tuple[int, int]] = []
    limits = Limits()
    first = length - ROUNDS // 2 - settle
    for position, token in enumerate(ids[first : length + ROUNDS // 2]):
        text, window = detokenize(tokenizer, [token], window, _KEEP_SPECIAL)
        at = [perf_counter()]
        parser = deployment.parser()
        at.append(perf_counter())
        parser = deployment.prototype.fresh()
        at.append(perf_counter())
        processor = deployment.processor(parser)
        data = unpack(packed, limits)
        at.append(perf_counter())
        restore(processor, data, _LAYOUTS)
        at.append(perf_counter())
        processor.step(text, [token], None, None)
        at.append(perf_counter())
        data = snapshot(processor, _LAYOUTS)
        at.append(perf_counter())
        packed = pack(data)
        at.append(perf_counter())
        if position >= settle:
            for phase, (begin, end) in zip(PHASES, pairwise(at), strict=True):
                times[phase].append((end - begin) * 1000)
            sizes.append((len(json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()), len(packed)))
    return {
        "raw": median(size[0] for size in sizes),
        "packed": median(size[1] for size in sizes),
        **{phase: round(median(values), 4) for phase, values in times.items()},
    }


def run(lengths: Sequence[int] = LENGTHS, only: str = "") -> list[dict[str, Any]]:
    """One row for each setup and length."""
    logging.disable(logging.CRITICAL)
    rows: list[dict[str, Any]] = []
    for setup in SETUPS:
        if only not in setup.name:
            continue
        deployment = Deployment(setup)
        for length in lengths:
            figures = measure(setup, deployment, length)
            carrying = round(sum(figures[phase] for phase in CARRYING), 4)
            rows.append({"setup": setup.name, "tokens": length, **figures, "carrying": carrying})
    logging.disable(logging.NOTSET)
    return rows


if __name__ == "__main__":
    for row in run():
        print("  ".join(f"{name} {value}" for name, value in row.items()))
