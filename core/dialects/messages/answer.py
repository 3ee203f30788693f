"""An answer in one piece: what a choice says as a ``Message``."""

from __future__ import annotations

from typing import Any

from pydantic_core import from_json

from core.choice.output import ChoiceOutput, ToolCall
from core.json import Json
from core.protocol.engine import GenerateResponse
from core.protocol.openai import random_id
from core.upstream.messages import stop_reasons


def message(output: ChoiceOutput, message_id: str, model_name: str, usage: Json) -> Json:
    """The ``Message`` of a choice; fields without a value are left out, as in vLLM."""
    calls = output.tool_calls
    reason, sequence = stop_reasons(
        output.finish_reason or "stop", output.stop_reason, calls=bool(calls), complete=bool(calls)
    )
    body: Json = {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "content": _blocks(output),
        "model": model_name,
    }
    if reason is not None:
        body["stop_reason"] = reason
    if sequence is not None:
        body["stop_sequence"] = sequence
    body["usage"] = usage
    return body


def transfers(source: GenerateResponse) -> Json:
    """What an engine hands to the next one, passed on."""
    given = {"kv_transfer_params": source.kv_transfer_params, "ec_transfer_params": source.ec_transfer_params}
    return {name: value for name, value in given.items() if value is not None}


def _blocks(output: ChoiceOutput) -> list[Json]:
    blocks: list[Json] = []
    if output.reasoning:
        blocks.append({"type": "thinking", "thinking": output.reasoning, "signature": random_id()})
    if output.content:
        blocks.append({"type": "text", "text": output.content})
    blocks += map(_tool_use, output.tool_calls)
    # Some clients take it for granted that there is a block.
    return blocks or [{"type": "text", "text": ""}]


def _tool_use(call: ToolCall) -> Json:
    function = call["function"]
    assert function is not None
    return {
        "type": "tool_use",
        "id": call["id"],
        "name": function["name"],
        "input": read_input(function["arguments"] or ""),
    }


def read_input(arguments: str) -> dict[str, Any]:
    """A tool's input, which is an object: of arguments that break off, what is complete; of no object, nothing."""
    try:
        value = from_json(arguments, allow_partial=True)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
