"""A completion's ``echo``: the prompt before the answer, with its log probabilities where the answer has some.

The prompt and the output are one sequence: the places of the output's tokens
are counted from the beginning of the prompt, as in vLLM's full server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from core.json import Json
from core.model import Model
from core.protocol.engine import GenerateResponse, LogProb, Logprob, LogProbs, PositionLogProbs
from core.relay.errors import EngineFailed
from core.relay.request import RelayRequest
from core.text.logprobs import chat_logprobs, completion_logprobs

PromptLogprobs = Sequence[Mapping[int, Logprob] | None]


def echo_prompts(request: RelayRequest, responses: Sequence[GenerateResponse], choices: Sequence[Json]) -> None:
    """Put the prompts before the choices of an answer.

    Raises:
        EngineFailed: the log probabilities of a prompt are wanted and not there.
    """
    assert request.echo is not None

    @cache
    def logprobs_of(prompt: int) -> Json:
        ids = request.prompts[prompt]["token_ids"]
        return _flat(request.model, ids, responses[prompt].prompt_logprobs, request.options.top_limit)

    for place, choice in enumerate(choices):
        prompt = place // request.n
        text = request.echo[prompt]
        choice["text"] = text if request.echo_only else text + choice["text"]
        if choice["logprobs"] is not None:
            before = logprobs_of(prompt)
            choice["logprobs"] = before if request.echo_only else _joined(before, choice["logprobs"])


def _flat(model: Model, ids: Sequence[int], given: PromptLogprobs | None, top_limit: int | None) -> Json:
    """The flat lists of a prompt. Nothing comes before its first token, so that one has no probability."""
    if given is None or len(given) != len(ids):
        raise EngineFailed("the engine sent no log probabilities of the prompt")
    positions = []
    for token_id, candidates in zip(ids[1:], given[1:], strict=True):
        own = (candidates or {}).get(token_id)
        if own is None or candidates is None:
            raise EngineFailed("the engine sent no log probability of a token of the prompt")
        top = [LogProb(token_id=one, logprob=logprob.logprob) for one, logprob in candidates.items()]
        positions.append(PositionLogProbs(token_id=token_id, logprob=own.logprob, top_logprobs=top))
    source = LogProbs(content=positions)
    first = model.tokenizer.decode([ids[0]])
    rest = completion_logprobs(chat_logprobs(source, model.tokenizer, ids[:1], top_limit), source, len(first))
    none = {"text_offset": [0], "token_logprobs": [None], "tokens": [first], "top_logprobs": [None]}
    return {key: values + rest[key] for key, values in none.items()}


def _joined(before: Json, after: Json) -> Json:
    shift = before["text_offset"][-1] + len(before["tokens"][-1])
    moved = {**after, "text_offset": [offset + shift for offset in after["text_offset"]]}
    return {key: values + moved[key] for key, values in before.items()}
