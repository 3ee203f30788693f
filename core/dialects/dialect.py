"""What a dialect is: its endpoints' names and its doors, by which render, derender and the relay use it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from core.dialects.error_shape import ErrorShape
from core.json import Json
from core.model import Model

if TYPE_CHECKING:
    # What a door takes and gives is loaded with it.
    from pydantic import BaseModel

    from core.choice.output import Report
    from core.errors import RequestError
    from core.protocol.derender import OneShotBody, StreamBody
    from core.protocol.engine import GenerateResponse, Usage
    from core.relay.answer import AnswerWriter
    from core.relay.passing import Passing
    from core.relay.request import RelayRequest
    from core.relay.turns import Turns
    from core.render.media import ImageHandling


class Rendering(Protocol):
    """The door to rendering. ``body`` is the decoded JSON of a request and stays as it is."""

    def render(
        self, model: Model, body: Any, request_id: str | None = None, images: ImageHandling = ...
    ) -> Json | list[Json]:
        """The ``GenerateRequest`` of a request, or a list with one for each prompt.

        ``request_id`` wins over the request's own; ``images`` says what becomes of images.

        Raises:
            ModelNotFound, BadRequest, SchemaError: in the order in which vLLM checks.
        """
        ...

    def forms(self) -> Sequence[type[BaseModel]]:
        """The types of a request."""
        ...


class Counted(NamedTuple):
    """The answer of a counting endpoint, the number that it holds, and what the audit found of the prompt."""

    answer: Json
    tokens: int
    findings: tuple[str, ...]


class Counting(Protocol):
    """The door to counting the tokens of a prompt without generating."""

    def count(self, model: Model, body: Any, *, relayed: bool = False) -> Counted:
        """Count a prompt: of render, or ``relayed`` as the relay writes it for its engine.

        Raises:
            ModelNotFound, BadRequest, SchemaError: as rendering does.
        """
        ...

    def count_forms(self) -> Sequence[type[BaseModel]]:
        """The types of a request."""
        ...


class Derendering(Protocol):
    """The door to derendering. ``once`` and ``chunk`` are the types of its two bodies."""

    def bodies(self) -> tuple[type[OneShotBody], type[StreamBody]]:
        """The types of a one-shot and of a streaming body."""
        ...

    def derender(self, model: Model, body: Any, report: Report) -> Json:
        """The answer of a one-shot body. ``report`` is told what the audit found.

        Raises:
            ModelNotFound, BadRequest, SchemaError: in the order in which vLLM checks.
        """
        ...

    def derender_stream(self, model: Model, body: Any, report: Report) -> Json:
        """What the chunks of a streaming body say, and the next ``stream_state``. ``report`` as above.

        Raises:
            ModelNotFound, BadRequest, SchemaError: in the order in which vLLM checks.
        """
        ...


class Relaying(Protocol):
    """The door to the relay."""

    def open_request(
        self,
        model: Model,
        body: Any,
        request_id: str | None = None,
        passing: Passing = ...,
        turns: Turns = ...,
    ) -> RelayRequest:
        """A request for the engine; ``body`` is the decoded JSON, ``request_id`` wins over the request's own.

        ``turns`` says how conversations continue, in the dialects that have some.

        Raises:
            ModelNotFound, BadRequest, SchemaError: as rendering does; also for an id outside the vocabulary,
                and for a field that ``passing`` does not let through.
        """
        ...

    def writer(self, request: RelayRequest) -> AnswerWriter:
        """What writes the streamed answer to a request."""
        ...

    def answer(
        self,
        request: RelayRequest,
        responses: Sequence[GenerateResponse],
        reported: Usage | None,
        report: Report,
    ) -> Json:
        """The answer in one piece; ``responses`` are the engine's to each prompt, ``reported`` its own counts.

        ``report`` is told what the audit found.

        Raises:
            Exception: of any kind, over what the model wrote.
        """
        ...


@dataclass(frozen=True, eq=False, repr=False)
class Dialect:
    """One dialect.

    ``path`` is that of its full endpoint; ``count_path`` that of counting,
    None where the dialect has none. ``usual`` dialects are loaded at a
    function's start, the others by their first request. With ``named_events``
    a stream's events bear their types as names and its last event ends it;
    without, they are bare and ``[DONE]`` ends it. ``errors`` is the shape of
    the full endpoint's errors and of counting's; render and derender always
    answer in vLLM's. ``missing`` is the error for whoever asks for an answer
    by its id, None where the dialect has no such endpoints: none is ever stored.
    """

    name: str
    path: str
    usual: bool
    named_events: bool
    errors: ErrorShape
    rendering: Callable[[], Rendering]
    derendering: Callable[[], Derendering]
    relaying: Callable[[], Relaying]
    count_path: str | None = None
    counting: Callable[[], Counting] | None = None
    missing: Callable[[str], RequestError] | None = None
