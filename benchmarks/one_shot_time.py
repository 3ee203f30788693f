"""What does a one-shot derender of 2,000 tokens cost, with and without a parser, as a multiple of the floor?

The floor is what nobody can do without: parse the body (orjson), decode the
ids (one ``tokenizers`` decode), write a body (orjson). Ours is the whole
handler: API Gateway event in, response out.
"""

from __future__ import annotations

import json
from typing import Any

import orjson
from tokenizers import Tokenizer

from benchmarks.harness.setups import (
    PATH_CHAT,
    QWEN_TOOL_CHAT,
    gateway_event,
    lambda_handler,
    model_folder,
    tool_call_output,
)
from benchmarks.harness.timing import best_of
from handlers.app import create_app
from handlers.derender_endpoints import DERENDER
from handlers.settings import Settings

TOKENS = 2000


def run() -> list[dict[str, Any]]:
    """One row for each of plain and hermes + qwen3."""
    folder = model_folder("qwen3")
    encoder = Tokenizer.from_file(str(folder / "tokenizer.json"))
    rows = []
    for name, parser in (("plain", {}), ("hermes + qwen3", QWEN_TOOL_CHAT)):
        ids = tool_call_output(encoder, TOKENS) if parser else encoder.encode("A plain sentence of text. " * 700).ids
        body = {
            "generate_response": {
                "request_id": "b",
                "choices": [{"index": 0, "token_ids": ids[:TOKENS], "finish_reason": "length"}],
            },
            "prompt_tokens": 9,
            "chat_request": {"model": "m", "messages": [{"role": "user", "content": "Hi"}]},
        }
        if parser:
            body["chat_request"] = QWEN_TOOL_REQUEST
        raw = json.dumps(body)
        settings = Settings(model=str(folder), served_model_name=("m",), **parser)
        handler = lambda_handler(create_app(settings, DERENDER))
        event = gateway_event(PATH_CHAT, raw)
        answer = handler(event, None)
        assert answer["statusCode"] == 200, answer["body"][:400]
        text = answer["body"]

        def ours(event: Any = event, handler: Any = handler) -> Any:
            return handler(event, None)

        def floor(raw: str = raw, text: str = text) -> Any:
            ids = orjson.loads(raw)["generate_response"]["choices"][0]["token_ids"]
            return orjson.dumps({"text": encoder.decode(ids, skip_special_tokens=False)})

        best = best_of({"ours": ours, "floor": floor})
        rows.append(
            {
                "setup": name,
                "tokens": TOKENS,
                "ours_ms": best["ours"] * 1e3,
                "floor_ms": best["floor"] * 1e3,
                "ratio": best["ours"] / best["floor"],
            }
        )
    return rows


QWEN_TOOL_REQUEST: dict[str, Any] = {
    "model": "m",
    "messages": [{"role": "user", "content": "What is the weather in Paris?"}],
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "write_file",
                "parameters": {"type": "object", "properties": {"text": {"type": "string"}}},
            },
        }
    ],
}
