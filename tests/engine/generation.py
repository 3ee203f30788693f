"""Generating: what an engine does after sampling, token by token, with a script in place of the sampler."""

import asyncio
import itertools
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tokenizers.decoders import DecodeStream

from tests.engine.errors import EngineError
from tests.engine.model import Model
from tests.engine.requests import GenerateRequest, SamplingParams
from tests.engine.script import Answer, Script

KEPT = 1000
"""How many of the last requests are remembered."""


@dataclass
class Delta:
    """New tokens of one choice; `finish_reason` with its last."""

    index: int
    token_ids: list[int]
    first: int
    finish_reason: str | None = None
    stop_reason: int | str | None = None


@dataclass
class StopCheck:
    """Whether a token ends a choice, by the rules of vLLM's scheduler and detokenizer, in their order."""

    model: Model
    params: SamplingParams
    prompt: list[int]
    count: int = field(default=0, init=False)
    _text: str = field(default="", init=False)
    _stream: Any = field(init=False)

    def __post_init__(self) -> None:
        self._stream = DecodeStream(ids=self.prompt[-6:], skip_special_tokens=self.params.skip_special_tokens)
        room = self.model.max_model_len - len(self.prompt)
        self.limit = min(self.params.max_tokens or room, room)
        self.stop_ids = set(self.params.stop_token_ids or ())
        if not self.params.ignore_eos:
            self.stop_ids |= self.model.other_eos_ids

    def ending_ids(self) -> set[int]:
        """What is not sampled before `min_tokens` is reached."""
        eos = set() if self.model.eos_id is None else {self.model.eos_id}
        return self.stop_ids | self.model.other_eos_ids | eos

    def after(self, token: int) -> tuple[str | None, int | str | None]:
        """(finish_reason, stop_reason) once `token` is appended."""
        self.count += 1
        if token == self.model.eos_id and not self.params.ignore_eos:
            return "stop", None
        if token in self.stop_ids:
            return "stop", token
        ended = "length" if self.count >= self.limit else None
        if self.params.stop_strings:
            new = self._stream.step(self.model.tokenizer, token) or ""
            before, self._text = len(self._text), self._text + new
            if self.count > self.params.min_tokens:
                ends = ((self._end_of(stop, before), stop) for stop in self.params.stop_strings)
                first = min((pair for pair in ends if pair[0] >= 0), default=None, key=lambda pair: pair[0])
                if first is not None:
                    return "stop", first[1]
        return ended, None

    def _end_of(self, stop: str, before: int) -> int:
        """Where in the text a stop string that ends in new text ends, -1 where it does not."""
        at = self._text.find(stop, max(before - len(stop) + 1, 0))
        return at + len(stop) if at >= 0 else -1


class Engine:
    """The engine: requests in, tokens out.  Its only state is which requests are running.

    With `tokens_only` it is as bare as vLLM's `--tokens-only`: it looks for no stop strings, takes no images, and
    one id beyond its vocabulary ends it for all.
    """

    def __init__(
        self,
        model: Model,
        script: Script,
        names: list[str],
        per_chunk: int = 1,
        delay: float = 0.0,
        tokens_only: bool = False,
    ) -> None:
        self.model, self.script, self.names = model, script, names
        self._per_chunk, self._delay, self._tokens_only = per_chunk, delay, tokens_only
        self._running: dict[str, bool] = {}
        self.is_dead = False
        # The last requests: which came, which were asked to end, which were left before their end.
        self.seen: deque[dict[str, Any]] = deque(maxlen=KEPT)
        self.aborted: deque[str] = deque(maxlen=KEPT)
        self.left: deque[str] = deque(maxlen=KEPT)

    @property
    def running(self) -> list[str]:
        """The ids of the requests at work."""
        return list(self._running)

    def abort(self, request_ids: Sequence[str]) -> None:
        """End running requests, by the ids in their answers."""
        self.aborted.extend(request_ids)
        for request_id in request_ids:
            if request_id in self._running:
                self._running[request_id] = False

    def check(self, request: GenerateRequest) -> None:
        """Raise EngineError where vLLM would refuse the request."""
        if self.is_dead:
            raise EngineError("the engine is dead", None, 500, "InternalServerError")
        if request.model is not None and request.model not in self.names:
            message = f"The model `{request.model}` does not exist. Valid aliases: {', '.join(self.names)}."
            raise EngineError(message, "model", 404, "NotFoundError")
        if request.output_mode != "tokens":
            raise EngineError(f"the scripted engine answers output_mode='tokens' only, not {request.output_mode!r}")
        request.sampling_params.check()
        if self._tokens_only:
            self._check_bare(request)
        self.model.check_prompt(request.token_ids)

    def _check_bare(self, request: GenerateRequest) -> None:
        if request.features or request.content_parts:
            raise EngineError("images need a tokenizer, which an engine with --tokens-only has not loaded")
        if request.sampling_params.stop_strings:
            raise EngineError("an engine without a tokenizer looks for no stop strings")
        ids = [*request.token_ids, *(request.sampling_params.stop_token_ids or ())]
        if max(ids) >= self.model.vocab_size:
            self.is_dead = True
            raise EngineError("the engine died of an id beyond its vocabulary", None, 500, "InternalServerError")

    def _tokens(self, answer: str, check: StopCheck) -> Iterator[int]:
        """The tokens to sample: the answer and an end of sequence, again and again."""
        script = self.model.encode(answer)
        script += [] if self.model.eos_id is None else [self.model.eos_id]
        ending = check.ending_ids()
        # An engine cannot sample an ending before min_tokens: it is passed over, or, where the script has nothing
        # else, another token comes in its place.
        only_endings = ending.issuperset(script)
        other = next((token for token in range(self.model.vocab_size) if token not in ending), script[0])
        for token in itertools.cycle(script):
            if token not in ending or check.count >= check.params.min_tokens:
                yield token
            elif only_endings:
                yield other

    def answer(self, request: GenerateRequest) -> Answer:
        """What the script has for a request.  Raises EngineError where it says that there is only a status."""
        answer = self.script.answer(self.model.decode(request.token_ids))
        if answer.fault is not None and answer.fault.kind == "status":
            raise answer.fault.error()
        return answer

    async def generate(self, request: GenerateRequest, request_id: str, answer: Answer) -> AsyncIterator[Delta]:
        """The tokens of all choices, in turns."""
        params = request.sampling_params
        endless = answer.fault is not None and answer.fault.kind == "endless"
        checks = [StopCheck(self.model, params, request.token_ids) for _ in range(params.n)]
        sources = [self._tokens(answer.texts[i % len(answer.texts)], checks[i]) for i in range(params.n)]
        open_choices = list(range(params.n))
        self.seen.append(request.model_dump(exclude_unset=True))
        self._running[request_id] = True
        try:
            while open_choices:
                if self._delay:
                    await asyncio.sleep(self._delay)
                for i in list(open_choices):
                    delta = Delta(i, [], checks[i].count)
                    if not self._running.get(request_id, True):
                        delta.finish_reason = "abort"
                    while delta.finish_reason is None and len(delta.token_ids) < self._per_chunk:
                        delta.token_ids.append(next(sources[i]))
                        delta.finish_reason, delta.stop_reason = checks[i].after(delta.token_ids[-1])
                        if endless:
                            delta.finish_reason = delta.stop_reason = None
                    if delta.finish_reason is not None:
                        open_choices.remove(i)
                    yield delta
                await asyncio.sleep(0)
        finally:
            self._running.pop(request_id, None)
            if open_choices:
                self.left.append(request_id)
