"""The cases through full vLLM's own derender server classes; a script that its environment runs.

    python tests/equality/full_vllm.py cases.jsonl results.jsonl

Reads one case a line and writes ``[one-shot, {chunking: stream}]`` a line, joined. Only the engine-side configuration is
a stand-in: what vLLM's classes read of the model's configuration, and its tokenizer.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ.setdefault("VLLM_LOGGING_LEVEL", "CRITICAL")
sys.path.append(str(Path(__file__).parents[2]))

from vllm.entrypoints.openai.chat_completion.stream_processor import ChatStreamProcessor
from vllm.entrypoints.scale_out.derender.serving import ServingDerender
from vllm.entrypoints.scale_out.token_in_token_out.protocol import (
    DerenderChatRequest,
    DerenderChatStreamRequest,
    DerenderStreamState,
)
from vllm.renderers.online_derenderer import OnlineDerenderer, _decode_params, _seed_stream_state
from vllm.tokenizers import get_tokenizer
from vllm.transformers_utils.config import try_get_generation_config

from tests.equality import joined
from tests.equality.wire import Case, Json, engine_chunks, one_shot_body, stream_body

logging.disable(logging.CRITICAL)
# vLLM parses everything before a chunk again for the chunk. Longer streams keep their parser, as its chat endpoint does.
REPLAYED_CHUNKS = 16


@cache
def tokenizer_of(folder: str) -> Any:
    return get_tokenizer(folder)


@cache
def serving_of(folder: str, model_type: str, tool: str | None, reasoning: str | None) -> ServingDerender:
    """vLLM's server classes for one deployment."""
    tokenizer = tokenizer_of(folder)
    generation = try_get_generation_config(folder, trust_remote_code=False)
    hf_config = SimpleNamespace(model_type=model_type)
    model_config = SimpleNamespace(
        model="m",
        hf_config=hf_config,
        hf_text_config=hf_config,
        hf_overrides=None,
        architecture=None,
        max_model_len=4096,
        max_logprobs=20,
        try_get_generation_config=lambda: generation.to_diff_dict() if generation else {},
    )
    renderer = SimpleNamespace(
        tokenizer=tokenizer,
        get_tokenizer=lambda: tokenizer,
        get_eos_token_id=lambda: tokenizer.eos_token_id,
        _executor=ThreadPoolExecutor(1),
    )
    derenderer = OnlineDerenderer(
        model_config,
        renderer,
        request_logger=None,
        chat_template=None,
        chat_template_content_format="auto",
        enable_auto_tools=tool is not None,
        tool_parser=tool,
        reasoning_parser=reasoning or ("openai_gptoss" if model_type == "gpt_oss" else None),
    )
    models = SimpleNamespace(
        model_config=model_config, lora_requests={}, is_base_model=lambda name: True, model_name=lambda: "m"
    )
    return ServingDerender(models, derenderer)


async def one_shot(serving: ServingDerender, case: Case) -> Json:
    """The joined one-shot answer."""
    try:
        answer = await serving.derender_chat_response(DerenderChatRequest.model_validate(one_shot_body(case)))
    except Exception:
        # Some parsers raise other errors than those that vLLM answers with a 400: its answer is a 500.
        return joined.REFUSED
    dumped = answer.model_dump()
    return joined.whole(dumped) if "choices" in dumped else joined.REFUSED


async def replayed(serving: ServingDerender, case: Case, lengths: list[int]) -> Json:
    """The joined stream: one call a chunk, with the state that the call before it returned."""
    chunks: list[Json] = []
    state = None
    for chunk in engine_chunks(case, lengths):
        body = {**stream_body(case), "generate_chunk": chunk, "stream_state": state}
        answer = await serving.derender_chat_stream_response(DerenderChatStreamRequest.model_validate(body))
        if not isinstance(answer, tuple):
            return joined.REFUSED
        chunks.append(answer[0].model_dump())
        state = answer[1].model_dump()
    return joined.streamed(chunks)


def kept(serving: ServingDerender, case: Case, lengths: list[int]) -> Json:
    """The joined stream of one parser that lives from the first chunk to the last."""
    derenderer = serving.online_derenderer
    tokenizer = derenderer.renderer.get_tokenizer()
    request = DerenderChatRequest.model_validate(one_shot_body(case)).chat_request
    parser = derenderer.parser(
        tokenizer,
        request.tools,
        chat_template_kwargs=derenderer._resolve_chat_template_kwargs(request),
        model_config=derenderer.model_config,
    )
    processor = ChatStreamProcessor(
        request, parser, enable_auto_tools=derenderer.enable_auto_tools, parser_cls=derenderer.parser
    )
    skip, spaces = _decode_params(tokenizer, request, preserve_special=True)
    window: DerenderStreamState = _seed_stream_state(tokenizer, case.prompt, skip_special_tokens=skip)
    chunks: list[Json] = []
    try:
        for chunk in engine_chunks(case, lengths):
            choices = []
            for choice in chunk["choices"]:
                finish = choice.get("finish_reason")
                ids, _ = derenderer._drop_stop_token(choice["token_ids"], finish, None, request)
                text, window = derenderer._detokenize_delta(tokenizer, ids, window, skip, spaces)
                delta, reason = processor.step(text, choice["token_ids"], finish, case.prompt)
                choices.append(
                    {"index": choice["index"], "delta": delta.model_dump() if delta else {}, "finish_reason": reason}
                )
            chunks.append({"choices": choices, "usage": chunk.get("usage")})
    except Exception:
        return joined.REFUSED
    return joined.streamed(chunks)


async def run(case: Case) -> list[Json]:
    serving = serving_of(case.folder, case.model_type, *case.parsers)
    streams = {}
    for name, lengths in case.chunkings.items():
        if len(lengths) <= REPLAYED_CHUNKS or serving.online_derenderer.parser is None:
            streams[name] = await replayed(serving, case, lengths)
        else:
            streams[name] = kept(serving, case, lengths)
    return [await one_shot(serving, case), streams]


async def main(source: Path, target: Path) -> None:
    with source.open(encoding="utf-8") as lines, target.open("w", encoding="utf-8") as out:
        for line in lines:
            out.write(json.dumps(await run(Case.from_json(json.loads(line)))) + "\n")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
