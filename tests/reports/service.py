"""The service as the reports call it: text in place of token ids, answers joined to what a user sees.

It must never decide what is right: the tests do.
"""

import gc
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from core.tokenizer import Tokenizer
from tests.golden.application import InProcess, make_app
from tests.golden.corpus import Json, Server, server_key
from tests.golden.replay import JSON_HEADERS
from tests.support.models import tokenizer_in
from tests.support.streams import Choice, join

CHAT = "/v1/chat/completions/derender"
COMPLETIONS = "/v1/completions/derender"
RENDER_CHAT = "/v1/chat/completions/render"
RENDER_COMPLETIONS = "/v1/completions/render"
SIZES = (1, 2, 3, 5, None)
"""Tokens in a chunk of a stream; None: all in one."""


Output = str | Sequence[int] | Sequence[str] | Sequence[Sequence[int]]
"""An output: its text or ids, to be cut every so many tokens, or a list with the text or ids of each chunk."""


@dataclass
class Answer:
    """One choice of an answer; a stream's deltas are joined. `calls` holds (name, arguments)."""

    content: str | None = None
    reasoning: str | None = None
    calls: list[tuple[str, str]] = field(default_factory=list)
    finish: str | None = None
    usage: Json = None
    logprobs: list[Json] = field(default_factory=list)
    raw: list[Json] = field(default_factory=list)
    """The response, or the chunks."""

    def arguments(self) -> list[tuple[str, Json]]:
        """The calls with their arguments read as JSON."""
        return [(name, json.loads(text)) for name, text in self.calls]

    def seen(self) -> tuple[str | None, list[tuple[str, str]], str | None]:
        return self.content, self.calls, self.finish


def user(text: str = "hi", **fields: Json) -> Json:
    """A chat request of one user message."""
    return {"model": "m", "messages": [{"role": "user", "content": text}], **fields}


class Service:
    """One configuration of the service, in this process."""

    def __init__(self, application: InProcess, name: str, tokenizer: Tokenizer) -> None:
        self._application = application
        self._name = name
        self._tokenizer = tokenizer

    def post(self, path: str, body: Json) -> tuple[int, Json]:
        for key in ("chat_request", "completion_request"):
            if isinstance(body.get(key), dict):
                body = {**body, key: {**body[key], "model": self._name}}
        if body.get("model") == "m":
            body = {**body, "model": self._name}
        return self._application.call("POST", path, json.dumps(body).encode(), JSON_HEADERS)

    def ids(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False)

    def ok(self, path: str, body: Json) -> Json:
        status, answer = self.post(path, body)
        assert status == 200, answer
        return answer

    def error(self, path: str, body: Json, status: int = 400) -> str:
        """The message of a refusal, which must have the error shape and no stack text."""
        got, answer = self.post(path, body)
        assert got == status, answer
        error = answer["error"]
        assert set(error) == {"message", "type", "param", "code"}
        message: str = error["message"]
        assert "Traceback" not in message
        return message

    def prompt(self, path: str, body: Json) -> str:
        """The rendered prompt, as text with its special tokens."""
        answer = self.ok(path, body)
        rendered = answer[0] if isinstance(answer, list) else answer
        text: str = self.ok("/detokenize", {"tokens": rendered["token_ids"]})["prompt"]
        return text

    def one(self, output: str | Sequence[int], request: Json = None, /, finish: str = "stop", **fields: Json) -> Answer:
        """A one-shot chat answer for the output."""
        ids = self.ids(output) if isinstance(output, str) else list(output)
        choice = {"index": 0, "token_ids": ids, "finish_reason": finish, **fields.pop("choice", {})}
        response = {"request_id": "r", "choices": [choice], **fields.pop("response", {})}
        body = self.ok(CHAT, {"generate_response": response, "chat_request": request or user(), **fields})
        choice = body["choices"][0]
        message = choice["message"]
        return Answer(
            message["content"],
            message["reasoning"],
            [(c["function"]["name"], c["function"]["arguments"]) for c in message.get("tool_calls") or []],
            choice["finish_reason"],
            body["usage"],
            (choice["logprobs"] or {}).get("content") or [],
            [body],
        )

    def stream(
        self,
        output: Output,
        request: Json = None,
        /,
        size: int | None = 1,
        finish: str = "stop",
        prompt: str = "",
        logprobs: bool = False,
        **fields: Json,
    ) -> Answer:
        """A streamed chat answer, cut every `size` tokens, or as the texts or ids of a list are."""
        chunks = self.chunks(output, size, finish, logprobs)
        return joined(
            self.call_each(CHAT, chunks, chat_request=request or user(), prompt_token_ids=self.ids(prompt), **fields)
        )

    def chunks(
        self,
        output: Output,
        size: int | None,
        finish: str,
        logprobs: bool = False,
    ) -> list[Json]:
        parts = self._parts(output, size)
        made: list[Json] = []
        for part in parts:
            choice: Json = {"index": 0, "token_ids": part, "finish_reason": None}
            if logprobs:
                choice["logprobs"] = {"content": [{"token_id": i, "logprob": -0.5, "rank": 1} for i in part]}
            made.append({"request_id": "r", "choices": [choice]})
        made[-1]["choices"][0]["finish_reason"] = finish
        return made

    def _parts(self, output: Output, size: int | None) -> list[list[int]]:
        if isinstance(output, str):
            ids = self.ids(output)
        elif all(isinstance(one, int) for one in output):
            ids = list(output)  # type: ignore[arg-type]
        else:
            return [self.ids(one) if isinstance(one, str) else list(one) for one in output]  # type: ignore[arg-type]
        step = size or len(ids)
        return [ids[at : at + step] for at in range(0, len(ids), step)]

    def call_each(self, path: str, chunks: Iterable[Json], **fields: Json) -> list[Json]:
        """The chunks that the calls of a stream answer, each choice with a state of its own."""
        states: dict[int, Json] = {}
        answers = []
        for chunk in chunks:
            index = chunk["choices"][0]["index"] if chunk["choices"] else 0
            body = {"stream": True, "generate_chunk": chunk, "stream_state": states.get(index), **fields}
            answer = self.ok(path, body)
            states[index] = answer["stream_state"]
            answers.append(answer["chunk"])
        return answers

    def streams(
        self,
        output: str | Sequence[int],
        request: Json = None,
        /,
        finish: str = "stop",
        prompt: str = "",
        sizes: Iterable[int | None] = SIZES,
    ) -> list[Answer]:
        """The streamed answers, one for each size of a chunk."""
        return [self.stream(output, request, size=size, finish=finish, prompt=prompt) for size in sizes]

    def every_way(
        self, output: str | Sequence[int], request: Json = None, /, finish: str = "stop", prompt: str = ""
    ) -> list[Answer]:
        """The one-shot answer and the streamed ones."""
        return [self.one(output, request, finish=finish), *self.streams(output, request, finish, prompt)]

    def text(self, output: str | Sequence[int], size: int | None, finish: str = "stop") -> str:
        """A streamed completion's text; `size` 0: one-shot."""
        if size == 0:
            ids = self.ids(output) if isinstance(output, str) else list(output)
            response = {"request_id": "r", "choices": [{"index": 0, "token_ids": ids, "finish_reason": finish}]}
            whole: str = self.ok(COMPLETIONS, {"generate_responses": [response]})["choices"][0]["text"]
            return whole
        answers = self.call_each(COMPLETIONS, self.chunks(output, size, finish))
        return "".join(choice["text"] for chunk in answers for choice in chunk["choices"])


def joined(chunks: list[Json], index: int = 0) -> Answer:
    """What the deltas of one choice add up to."""
    stream = join(chunks)
    choice = stream.choices.get(index) or Choice()
    return Answer(
        choice.content,
        choice.reasoning,
        [(call.name, call.arguments) for call in choice.calls.values()],
        choice.finish_reason,
        stream.usage,
        choice.logprobs.get("content", []),
        chunks,
    )


class Services:
    """The configurations in use; the one that was used least recently is stopped for a new one, to bound memory."""

    def __init__(self, models_dir: Path, most: int = 6) -> None:
        self._models_dir = models_dir
        self._most = most
        self._running: dict[str, tuple[InProcess, Service]] = {}
        # Apart from the services: what encodes takes long to load, and most of them never need it.
        self._tokenizers: dict[str, Tokenizer] = {}

    def get(self, model: str, tools: str | None = None, reasoning: str | None = None, **settings: str) -> Service:
        server: Server = {"model": model, **settings}
        if tools:
            server |= {"tool_call_parser": tools, "enable_auto_tool_choice": True}
        if reasoning:
            server["reasoning_parser"] = reasoning
        key = server_key(server)
        if key not in self._running:
            while len(self._running) >= self._most:
                self._stop(next(iter(self._running)))
            application = InProcess(make_app(server, self._models_dir))
            if model not in self._tokenizers:
                self._tokenizers[model] = tokenizer_in(self._models_dir / model)
            self._running[key] = application, Service(application, model, self._tokenizers[model])
        self._running[key] = self._running.pop(key)
        return self._running[key][1]

    def close(self) -> None:
        for key in list(self._running):
            self._stop(key)

    def _stop(self, key: str) -> None:
        self._running.pop(key)[0].close()
        gc.collect()  # an application is a web of references, and holds its model
