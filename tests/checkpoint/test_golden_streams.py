"""The recorded streams of vLLM's server, from checkpoint to checkpoint, against uninterrupted parsing."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from core.bundle.folder import FolderFiles
from core.bundle.model_config import read_model_config
from core.parsing.checkpoint import CheckpointRefused
from core.text.detokenizer import detokenize, seed_window
from tests.checkpoint.carrying import check_supported
from tests.checkpoint.equality import checkpointed, uninterrupted
from tests.checkpoint.setups import REPLAYED, Deployments
from tests.checkpoint.streams import KEEP_SPECIAL, Chunk, Setup, parser_class
from tests.golden import corpus

CASES = [case for case in corpus.by_server(corpus.load()) if corpus.through_parser(case) and "stream" in case]
SERVERS = {corpus.server_key(case["server"]): case["server"] for case in CASES}


def name_of(server: dict[str, Any]) -> str:
    parsers = "+".join(filter(None, (server.get("tool_call_parser"), server.get("reasoning_parser"))))
    rest = sorted(set(server) - {"model", "tool_call_parser", "reasoning_parser", "enable_auto_tool_choice", "env"})
    return "-".join([server["model"], parsers, *rest])


def recorded(case: dict[str, Any], setup: Setup) -> tuple[list[Chunk], list[int]]:
    prompt = case["stream"]["common"].get("prompt_token_ids") or []
    window = seed_window(setup.tokenizer, prompt, False)
    stream: list[Chunk] = []
    for chunk, response in zip(case["stream"]["chunks"], case["stream"]["responses"], strict=False):
        if response["status"] != 200:
            break
        for choice in chunk.get("choices") or []:
            ids = choice.get("token_ids") or []
            finish = choice.get("finish_reason")
            if choice.get("index", 0) == 0 and (ids or finish is not None):
                text, window = detokenize(setup.tokenizer, ids, window, KEEP_SPECIAL)
                stream.append(Chunk(text, ids, finish))
    return stream, prompt


@pytest.mark.parametrize("key", SERVERS, ids=lambda key: name_of(SERVERS[key]))
def test_recorded_streams(deployments: Deployments, models_dir: Path, key: str) -> None:
    server = SERVERS[key]
    tool = server.get("tool_call_parser") if server.get("enable_auto_tool_choice") else None
    tokenizer = deployments.load(server["model"], False)
    config = read_model_config(FolderFiles(models_dir / server["model"]))
    cls = parser_class(tool, server.get("reasoning_parser"), tokenizer, config.model_type == "gpt_oss")
    if cls is None:
        return
    hf_config = SimpleNamespace(model_type=config.model_type)
    model_config = SimpleNamespace(hf_config=hf_config, hf_text_config=hf_config, hf_overrides=None)
    compared = 0
    for case in (case for case in CASES if corpus.server_key(case["server"]) == key):
        request = dict(case["stream"]["common"].get("chat_request") or {})
        kwargs = {**(server.get("default_chat_template_kwargs") or {}), **(request.get("chat_template_kwargs") or {})}
        request["chat_template_kwargs"] = kwargs
        setup = Setup(tokenizer, cls, model_config, request, bool(server.get("enable_auto_tool_choice")))
        try:
            check_supported(setup.processor().parser)
        except CheckpointRefused:
            assert server["model"] == "mistral-spm" or tool in REPLAYED
            return
        stream, prompt = recorded(case, setup)
        assert checkpointed(setup, stream, prompt)[0] == uninterrupted(setup, stream, prompt), case["id"]
        compared += len(stream)
    assert compared
