"""A conversation whose sampled ids stay: render, generate, derender, turn after turn.

The ids of each turn go into the next render, which keeps them where it can
(``policy``), and says what it could not keep.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

from derender_client._async_client import AsyncDerenderClient
from derender_client._choice import CHAT
from derender_client._effects import Emit, Finished, Json, Steps, advance
from derender_client._errors import UnexpectedAnswer
from derender_client._gathering import Gathering, gathering_of
from derender_client._roundtrip import Request, derender, generate, render
from derender_client._session import Session
from derender_client._stream import stream_rendered
from derender_client._sync_client import DerenderClient
from derender_client._turns import Break, History, Message, Sample, Turn

_KEPT = ("role", "content", "reasoning", "tool_calls")


class _Talk:
    """What both conversations are. ``request`` is what every turn's request holds besides the messages."""

    def __init__(self, session: Session, request: Request, policy: str) -> None:
        if request.get("n") not in (None, 1):
            raise ValueError("a conversation has one choice a turn")
        self._session = session
        self._request = {name: value for name, value in request.items() if name not in ("messages", "stream")}
        self._history = History(policy)
        self.messages: list[Json] = [dict(message) for message in request.get("messages") or ()]
        """The conversation so far. An answer that is changed here is rendered as it stands, without its ids."""

    def add(self, *messages: Request) -> None:
        """Add messages: a question, or the results of tools."""
        self.messages += [dict(message) for message in messages]

    @property
    def turns(self) -> list[Turn]:
        """What each turn was made of, in their order."""
        return list(self._history.turns)

    @property
    def token_ids(self) -> list[int]:
        """The last prompt and what was sampled: how the next prompt begins, unless it breaks."""
        return self._history.turns[-1].token_ids if self._history.turns else []

    @property
    def breaks(self) -> list[Break]:
        """The turns whose prompts do not begin with the turn before and its output, each with the reason."""
        return list(self._history.breaks())

    def samples(self) -> list[Sample]:
        """The conversation as sequences of ids to train on: one, if no turn broke."""
        return list(self._history.samples())

    def _generate(self, fields: Json) -> Steps[Json]:
        request, rendered, told = yield from self._render(fields)
        response = yield from generate(self._session.engine, rendered)
        answer = yield from derender(self._session.derenderer, CHAT, request, [rendered], [response])
        try:
            message = answer["choices"][0]["message"]
        except (KeyError, IndexError, TypeError) as exc:
            raise UnexpectedAnswer(f"{self._session.derenderer.url} answered without a message") from exc
        self._note(told, rendered["token_ids"], response["choices"], message)
        return answer

    def _stream(self, fields: Json, gathering: Gathering) -> Steps[None]:
        request, rendered, told = yield from self._render({**fields, "stream": True})
        message, choices = Message(), list[Json]()
        session = self._session
        steps = stream_rendered(
            session.engine,
            session.derenderer,
            CHAT,
            request,
            [rendered],
            gathering,
            lambda chunk: choices.extend(chunk["choices"]),
        )
        yield from _watched(steps, message.add)
        self._note(told, rendered["token_ids"], choices, message.whole())

    def _render(self, fields: Json) -> Steps[tuple[Json, Json, tuple[Any, Any]]]:
        request = {**self._request, **fields, "messages": list(self.messages)}
        body = {**request, "continue_from": self._history.continue_from()}
        rendered = yield from render(self._session.renderer, CHAT, body)
        bare = dict(rendered)
        return request, bare, (bare.pop("continuation", None), bare.pop("turn_state", None))

    def _note(self, told: tuple[Any, Any], prompt: list[int], choices: list[Json], message: Json) -> None:
        self._history.add(*told, prompt, choices)
        said = {name: message[name] for name in _KEPT if message.get(name) is not None}
        self.messages.append({"content": None, **said})


def _watched(steps: Steps[None], see: Callable[[Json], None]) -> Steps[None]:
    """The same steps; ``see`` is shown what they emit."""
    result: Any = None
    while not isinstance(step := advance(steps, result), Finished):
        if isinstance(step, Emit):
            see(step.value)
        result = yield step


class Conversation(_Talk):
    """A conversation with a model, turn after turn, through a :class:`DerenderClient` that has an engine.

    Parameters
    ----------
    client:
        Makes the calls. It stays open.
    request:
        What the request of each turn holds: ``model``, ``tools``,
        ``max_tokens``, ``logprobs``; and the first ``messages``.
    policy:
        "append" (the default): sampled ids always stay. "template": unless the
        template no longer writes earlier reasoning. "exact": only where the
        text is what a plain prompt would say.
    """

    def __init__(self, client: DerenderClient, request: Request, *, policy: str = "append") -> None:
        super().__init__(client._session, request, policy)
        self._io = client._io

    def generate(self, **fields: Any) -> Json:
        """The chat completion of the next turn, whose message is added; ``fields`` are of this turn's request alone."""
        return self._io.run(self._generate(fields))

    def stream(
        self, *, gather_tokens: int = 1, gather_ms: float | None = None, **fields: Any
    ) -> Generator[Json, None, None]:
        """The chunks of the next turn, as :meth:`DerenderClient.stream_chat` gives them.

        The turn counts once it was read to its end.
        """
        return self._io.iterate(self._stream(fields, gathering_of(gather_tokens, gather_ms)))


class AsyncConversation(_Talk):
    """:class:`Conversation` for asyncio, through an :class:`AsyncDerenderClient`."""

    def __init__(self, client: AsyncDerenderClient, request: Request, *, policy: str = "append") -> None:
        super().__init__(client._session, request, policy)
        self._io = client._io

    async def generate(self, **fields: Any) -> Json:
        """See :meth:`Conversation.generate`."""
        return await self._io.run(self._generate(fields))

    def stream(
        self, *, gather_tokens: int = 1, gather_ms: float | None = None, **fields: Any
    ) -> AsyncGenerator[Json, None]:
        """See :meth:`Conversation.stream`."""
        return self._io.iterate(self._stream(fields, gathering_of(gather_tokens, gather_ms)))
