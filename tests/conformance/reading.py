"""The suite's outputs through the derender endpoints' functions: bodies are JSON, as clients send them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from canitoolcall.adapters.base import ReplayInput
from canitoolcall.adapters.vllm import USER_MESSAGE, chat_template_kwargs_for, resolve_parsers
from canitoolcall.results import ParsedToolCall, ParseResult, StreamAccumulator
from tokenizers import Tokenizer

from core.bundle.folder import FolderFiles
from core.derender.chat import derender_chat
from core.derender.stream import derender_chat_stream
from core.model import Model, ModelOptions, load_model
from core.protocol.derender import DerenderChatRequest, DerenderChatStreamRequest, parse_derender

# Its point are markers that the model spelled with ordinary tokens; without Kimi's vocabulary they are written here.
_SPELLED = "kimi/k3-control-marker-text-in-value"
_SPELLED_VALUE = "<|close|>argument<|sep|> is how args end"


class Reader:
    """Reads outputs under one setting of ``answers``. ``models`` and ``made`` are the folders of the model folders."""

    def __init__(self, models: Path, made: Path, **options: Any) -> None:
        self._models, self._made, self._options = models, made, options
        self._load = cache(self._loaded)

    def _loaded(self, folder: Path, mode: str, tool: str, reasoning: str | None) -> Model:
        return load_model(
            FolderFiles(folder),
            ModelOptions(
                served_names=("m",),
                tool_call_parser=tool,
                reasoning_parser=reasoning,
                enable_auto_tool_choice=True,
                tokenizer_mode=mode,
                **self._options,
            ),
        )

    def _folder(self, family: str, model: str) -> tuple[Path, str, bool]:
        """Folder, tokenizer mode, and whether the output's own ids are of this vocabulary."""
        if family == "qwen3-hermes" or (family == "qwen3-xml" and "Coder" in model):
            return self._models / "qwen3", "hf", True
        if family == "qwen3-xml":
            return self._models / "qwen3.5", "hf", True
        if family == "gpt-oss":
            return self._models / "gpt-oss", "hf", True
        if family == "deepseek":
            return (self._made / "deepseek-v32" if "V3.2" in model else self._models / "deepseek"), "hf", True
        if family == "llama" and "Llama-3" in model:
            return self._models / "llama3", "hf", True
        if family == "mistral":
            if "7B-Instruct-v0.3" in model:
                return self._models / "mistral-spm", "hf", True
            v11 = "3.2-24B" in model or "Magistral-Small-2506" in model
            return self._made / ("tekken-v11" if v11 else "tekken-v13"), "mistral", True
        return self._models / "families", "hf", False  # special tokens yes, other ids no

    def model(self, raw: ReplayInput) -> Model:
        rule = resolve_parsers(raw.family, raw.model)
        assert rule is not None
        assert rule.choice is not None
        folder, mode, _ = self._folder(raw.family, raw.model)
        return self._load(folder, mode, rule.choice.tool_parser, rule.choice.reasoning_parser)

    def _encode(self, raw: ReplayInput, text: str) -> list[int]:
        return list(self.model(raw).tokenizer.encode(text, add_special_tokens=False))

    def prompt_ids(self, raw: ReplayInput) -> list[int]:
        if self._folder(raw.family, raw.model)[1] == "mistral":
            return [1, 3, *self._encode(raw, USER_MESSAGE), 4]
        return self._encode(raw, f"{USER_MESSAGE}\n{raw.generation_prompt or ''}")

    def units(self, raw: ReplayInput) -> list[int]:
        """The ids of the output, the suite's own where the vocabulary is the model's."""
        folder, _, own = self._folder(raw.family, raw.model)
        if raw.fixture_id == _SPELLED:
            plain = Tokenizer.from_file(str(folder / "tokenizer.json"))
            plain.encode_special_tokens = True
            head, tail = raw.text.split(_SPELLED_VALUE)
            ids = plain.encode(_SPELLED_VALUE, add_special_tokens=False).ids
            return [*self._encode(raw, head), *ids, *self._encode(raw, tail)]
        return list(raw.token_ids) if own and raw.token_ids is not None else self._encode(raw, raw.text)

    def _request(self, raw: ReplayInput, tools: Sequence[Any], *, stream: bool) -> dict[str, Any]:
        body: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": USER_MESSAGE}], "stream": stream}
        if tools:
            body |= {"tools": [json.loads(json.dumps(tool)) for tool in tools], "tool_choice": "auto"}
        if kwargs := chat_template_kwargs_for(raw.thinking):
            body["chat_template_kwargs"] = kwargs
        return body

    def whole(self, raw: ReplayInput, tools: Sequence[Any]) -> ParseResult:
        """The answer in one piece."""
        prompt = self.prompt_ids(raw)
        choice = {"index": 0, "token_ids": self.units(raw), "finish_reason": "length" if raw.truncated else "stop"}
        body = {
            "generate_response": {"request_id": "r", "choices": [choice], "prompt_token_ids": prompt},
            "prompt_tokens": len(prompt),
            "prompt_token_ids": prompt,
            "chat_request": self._request(raw, tools, stream=False),
        }
        try:
            message = self._post(raw, body)["choices"][0]["message"]
        except Exception as exc:
            return ParseResult(exception=f"{type(exc).__name__}: {exc}")
        calls = [
            ParsedToolCall(c["function"]["name"], c["function"]["arguments"]) for c in message.get("tool_calls") or ()
        ]
        return ParseResult(message["content"] or None, message.get("reasoning") or None, tuple(calls))

    def streamed(self, raw: ReplayInput, tools: Sequence[Any], step: int | None) -> ParseResult:
        """The answer in chunks of ``step`` tokens (None: one chunk), joined as clients do it."""
        ids = self.units(raw)
        size = step or max(len(ids), 1)
        groups = [ids[at : at + size] for at in range(0, len(ids), size)] or [[]]
        joined, state = StreamAccumulator(), None
        try:
            for number, group in enumerate(groups, 1):
                finish = ("length" if raw.truncated else "stop") if number == len(groups) else None
                choice = {"index": 0, "token_ids": group, "finish_reason": finish}
                chunk = {"request_id": "r", "choices": [choice]}
                body: dict[str, Any] = {"stream": True, "stream_state": state, "generate_chunk": chunk}
                if state is None:
                    body["chat_request"] = self._request(raw, tools, stream=True)
                    body |= {"prompt_token_ids": self.prompt_ids(raw), "carry_context": True}
                answer = self._post(raw, body)
                state = answer["stream_state"]
                joined.add_openai_delta(answer["chunk"]["choices"][0]["delta"])
        except Exception as exc:
            return joined.result(exception=f"{type(exc).__name__}: {exc}")
        return joined.result()

    def _post(self, raw: ReplayInput, body: dict[str, Any]) -> Any:
        parsed = parse_derender(json.dumps(body).encode(), DerenderChatRequest, DerenderChatStreamRequest)
        run = derender_chat_stream if isinstance(parsed, DerenderChatStreamRequest) else derender_chat
        return json.loads(json.dumps(run(self.model(raw), parsed)))  # type: ignore[operator]
