"""An output explained: what each of its tokens is, what goes out chunk by chunk, and the answer in one piece.

Everything is done as the derender endpoints do it, by their own functions: the
deltas and states are those that a client would get.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from core.choice.output import ChoiceOutput, ChoiceStream, Report
from core.choice.reader import OutputReader
from core.choice.text import TextStream
from core.derender.chat import derender_chat
from core.derender.stream import derender_chat_stream
from core.errors import BadRequest, LongWork, RequestError
from core.explain.align import Alignment, Kind
from core.explain.tokens import token_texts
from core.json import Json
from core.model import Model
from core.protocol.derender import DerenderChatRequest, DerenderChatStreamRequest
from core.protocol.engine import StreamChoice
from core.protocol.output_options import OutputOptions, chat_options
from core.text.detokenizer import seed_window
from core.tokenizer import Tokenizer
from core.upstream.requests import validate_chat

MAX_IDS = 4096
"""The most ids of an output that is explained."""
MAX_REPLAYED = 256
"""The most chunks of a stream whose every chunk reads the output again from its beginning."""


def encode_output(tokenizer: Tokenizer, text: str) -> list[int]:
    """The ids of an output that somebody wrote down, its special tokens among them."""
    if getattr(tokenizer, "backend_tokenizer", None) is not None:
        return tokenizer.encode(text, add_special_tokens=False)
    # Mistral's tokenizer takes the names of its special tokens for plain text.
    special = dict(zip(tokenizer.all_special_tokens, tokenizer.all_special_ids, strict=True))
    names = "|".join(map(re.escape, sorted(special, key=len, reverse=True)))
    parts = re.split(f"({names})", text) if special else [text]
    ids: list[int] = []
    for part in parts:
        ids += [special[part]] if part in special else tokenizer.encode(part, add_special_tokens=False) if part else []
    return ids


def explain_answer(
    model: Model, request: Mapping[str, Any], prompt: Sequence[int], token_ids: Sequence[int], size: int = 1
) -> Json:
    """An output as it answers a chat request, streamed ``size`` tokens a chunk.

    ``tokens`` have an ``id``, its ``text`` and the ``kind`` of it, ``deltas`` what
    goes out for each chunk of tokens and how many bytes the state takes then (UTF-8),
    ``streamed`` and ``whole`` the message in the one way and the other, ``differs`` the names of
    its fields that are not the same in both, ``findings`` what the audit says.

    Raises:
        BadRequest, SchemaError: the request or the ids are none.
    """
    if model.options.short:
        raise LongWork
    if not token_ids:
        raise BadRequest("there is no output to explain", "output")
    if len(token_ids) > MAX_IDS:
        raise BadRequest(f"an output of at most {MAX_IDS} tokens is explained, not of {len(token_ids)}", "output")
    if max(token_ids) > model.tokenizer.max_token_id or min(token_ids) < 0:
        raise BadRequest(f"Token id {max(token_ids)} is out of vocabulary", "output")
    if model.options.stream_state == "replay" and len(token_ids) > MAX_REPLAYED * size:
        raise BadRequest(f"a stream of at most {MAX_REPLAYED} replayed chunks is explained: take larger ones", "size")
    # Without a setting derender reads as vLLM does, and so does this.
    answers = "vllm" if model.options.answers == "auto" else model.options.answers
    options = replace(model.options, audit="metrics", answers=answers)
    parser = None if model.chat_parser is None else model.chat_parser.with_options(options)
    model = replace(model, options=options, chat_parser=parser)
    findings: set[str] = set()

    def report(index: int, kinds: tuple[str, ...]) -> None:
        findings.update(kinds)

    deltas, streamed, failed = _streamed(model, request, prompt, token_ids, size, report)
    whole = _whole(model, request, prompt, token_ids, report)
    return {
        "tokens": _tokens(model, request, prompt, token_ids),
        "deltas": deltas,
        "streamed": streamed if failed is None else {"error": failed},
        "whole": whole,
        "differs": [] if failed else [name for name in _FIELDS if streamed.get(name) != whole.get(name)],
        "findings": sorted(findings),
    }


_FIELDS = ("content", "reasoning", "tool_calls")


def _streamed(
    model: Model, request: Mapping[str, Any], prompt: Sequence[int], token_ids: Sequence[int], size: int, report: Report
) -> tuple[list[Json], Json, str | None]:
    """What goes out for each chunk, the message that it joins to, and why the stream broke off (None: it did not)."""
    deltas: list[Json] = []
    joined = _Joined()
    state: Json | None = None
    for start in range(0, len(token_ids), size):
        piece = token_ids[start : start + size]
        reason = "stop" if start + size >= len(token_ids) else None
        body: Json = {
            "stream": True,
            "generate_chunk": {"choices": [{"index": 0, "token_ids": piece, "finish_reason": reason}]},
            "chat_request": request,
            "prompt_token_ids": prompt,
            "prompt_tokens": len(prompt),
            "stream_state": state,
        }
        try:
            answer = derender_chat_stream(model, DerenderChatStreamRequest.model_validate(body), report)
        except RequestError as exc:
            return deltas, joined.message(), exc.message
        state = answer["stream_state"]
        choices = answer["chunk"]["choices"]
        delta = {name: value for name, value in choices[0]["delta"].items() if value} if choices else {}
        joined.add(delta)
        ends = {"finish_reason": choices[0]["finish_reason"]} if choices and reason else {}
        size_now = len(json.dumps(state).encode())
        deltas.append({"tokens": [start, start + len(piece)], "delta": delta, "state_bytes": size_now, **ends})
    return deltas, joined.message(), None


class _Joined:
    """The message that the deltas of a stream add up to."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._calls: dict[int, list[str]] = {}

    def add(self, delta: Json) -> None:
        for name in ("content", "reasoning"):
            if delta.get(name):
                self._texts[name] = self._texts.get(name, "") + delta[name]
        for call in delta.get("tool_calls") or ():
            function = call.get("function") or {}
            parts = self._calls.setdefault(call["index"], ["", ""])
            parts[0] += function.get("name") or ""
            parts[1] += function.get("arguments") or ""

    def message(self) -> Json:
        calls = [{"name": name, "arguments": arguments} for name, arguments in self._calls.values()]
        return {**self._texts, **({"tool_calls": calls} if calls else {})}


def _whole(
    model: Model, request: Mapping[str, Any], prompt: Sequence[int], token_ids: Sequence[int], report: Report
) -> Json:
    """The message of the one-shot answer, or why there is none."""
    body = {
        "generate_response": {
            "choices": [{"index": 0, "token_ids": token_ids, "finish_reason": "stop"}],
            "prompt_token_ids": prompt,
        },
        "chat_request": request,
    }
    try:
        message = derender_chat(model, DerenderChatRequest.model_validate(body), report)["choices"][0]["message"]
    except RequestError as exc:
        return {"error": exc.message}
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    texts = {name: message[name] for name in ("content", "reasoning") if message.get(name)}
    named = [{"name": call["name"], "arguments": call["arguments"]} for call in calls]
    return {**texts, **({"tool_calls": named} if named else {})}


def _tokens(model: Model, request: Mapping[str, Any], prompt: Sequence[int], token_ids: Sequence[int]) -> list[Json]:
    stream = _begin(model, request, prompt)
    alignment = Alignment()
    texts = token_texts(model.tokenizer, token_ids, seed_window(model.tokenizer, prompt, False))
    places = []
    for place, (number, text) in enumerate(zip(token_ids, texts, strict=True)):
        places.append((*alignment.read(text), text))
        if stream is None:
            continue
        reason = "stop" if place == len(token_ids) - 1 else None
        try:
            output = stream.advance(StreamChoice(index=0, token_ids=[number], finish_reason=reason))
        except Exception:  # whatever a parser makes of it: what follows is not read
            stream = None
            continue
        for kind, piece in _pieces(output):
            alignment.say(kind, piece)
    return [
        {"id": number, "text": text, "kind": alignment.kind(start, end)}
        for number, (start, end, text) in zip(token_ids, places, strict=True)
    ]


def _begin(model: Model, request: Mapping[str, Any], prompt: Sequence[int]) -> ChoiceStream | None:
    if model.chat_parser is None:
        reader = OutputReader(model, chat_options(validate_chat(dict(request))))
        return TextStream(reader, reader.seed(prompt))
    from core.choice.parsed import begin_parsed  # late: only a deployment with a parser has vLLM's modules loaded

    chat = model.chat_parser.validate(dict(request))
    options: OutputOptions = chat_options(chat)
    return begin_parsed(OutputReader(model, options, parsed=True), model.chat_parser, chat, list(prompt))


def _pieces(output: ChoiceOutput) -> list[tuple[Kind, str]]:
    pieces: list[tuple[Kind, str]] = [("reasoning", output.reasoning or ""), ("content", output.content or "")]
    for call in output.tool_calls:
        function = call["function"]
        if function is not None:
            pieces += [("name", function["name"] or ""), ("arguments", function["arguments"] or "")]
    return pieces
