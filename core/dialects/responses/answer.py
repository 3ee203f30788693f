"""A response's envelope, and an answer in one piece."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from core.choice.output import ChoiceOutput
from core.dialects.responses.events import Envelope, response_status
from core.json import Json
from core.model import Model
from core.protocol.output_options import OutputOptions, read_options
from core.render.sampling import Sampling
from core.upstream.refusals import refusals
from core.upstream.responses import envelope, output_items, wants_logprobs


def response_options(model: Model, request: Any) -> OutputOptions:
    """What a request says about its output. gpt-oss models hide no reasoning, as in vLLM."""

    def get(name: str, default: Any = None) -> Any:
        if name == "include_reasoning" and model.config.is_harmony:
            return True
        value = getattr(request, name) if name in type(request).model_fields else None
        return default if value is None else value

    return read_options(get, request.top_logprobs if wants_logprobs(request) else 0)


def envelope_of(
    request: Callable[[], Any], sampling: Callable[[], Sampling], response_id: str, model_name: str, **passed: Any
) -> Envelope:
    """Writes the responses of one request as it was rendered; ``passed`` are the fields that are the engine's."""

    def write(created: int, status: str, output: list[Json], usage: Json | None) -> Json:
        with refusals():
            source = sampling().source
            written = envelope(request(), source, model_name, created, output=[], status=status, **passed)
        return {**written, "id": response_id, "output": output, "usage": usage}

    return write


def response(model: Model, request: Any, output: ChoiceOutput, write: Envelope, created: int, usage: Json) -> Json:
    """The response of a complete output.

    Raises:
        Exception: of any kind, over what the model wrote.
    """
    if output.segments is not None:
        # Late: only gpt-oss models load the harmony package.
        from core.upstream.responses_events import harmony_items

        items = harmony_items(output.segments, request)
        status = response_status(output.finish_reason) if items else "incomplete"
        return write(created, status, items, usage)
    content = (output.logprobs or {}).get("content") if wants_logprobs(request) else None
    items = output_items(request, output, content, has_parser=model.chat_parser is not None)
    return write(created, response_status(output.finish_reason), items, usage)
