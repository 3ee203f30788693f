"""Conversations through the relay that continue token for token, for clients that send only messages.

Each answer carries its ids on its message, where clients that keep unknown
fields send them back. For the others a cache of the process may know them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.json import Json
from core.model import Model

if TYPE_CHECKING:
    # Loaded by the first request that continues.
    from core.choice.output import ChoiceOutput
    from core.turns.asked import ContinueFrom, Policy
    from core.turns.cache import TurnCache
    from core.turns.continuation import Continuation
    from core.turns.door import Door


@dataclass(frozen=True)
class Turns:
    """How a deployment continues: by itself under ``policy`` (None: only when asked), with a ``cache`` or without.

    ``caller`` is what the client's key is known by: no one finds another's conversation.
    """

    policy: Policy | None = None
    cache: TurnCache | None = None
    caller: bytes | None = None


NO_TURNS = Turns()


def take_relayed(model: Model, body: Any, turns: Turns) -> tuple[Any, ContinueFrom | None]:
    """A body as vLLM knows it, and its ``continue_from``; without work where nothing continues.

    Raises:
        SchemaError: the field is not of its form.
    """
    if turns.policy is None and (not isinstance(body, Mapping) or body.get("continue_from") is None):
        return body, None
    from core.turns.asked import take  # late: few deployments continue turns

    return take(model, body)


class RelayedTurn:
    """One request's turn: ``continuation`` makes its prompt, and :meth:`answered` says what its answer carries."""

    def __init__(
        self,
        model: Model,
        body: Any,
        messages: Sequence[Any],
        given: ContinueFrom | None,
        turns: Turns,
        door: Door | None = None,
    ) -> None:
        # Late, as below: only where a conversation continues.
        from core.turns.asked import Asked, read
        from core.turns.carried import gather
        from core.turns.continuation import Continuation
        from core.turns.door import CHAT

        door = CHAT if door is None else door
        self._turns = turns
        # Rendering changes them in place.
        self._messages = [dict(message) if isinstance(message, Mapping) else message for message in messages]
        self.asked = given is not None
        policy: Policy = given.policy if given is not None else (turns.policy or "exact")
        self._chained = given is None or given.turn_state is None
        if given is not None and given.turn_state is not None:
            asked = read(model, given)
        else:
            found = gather(model, body, door)
            if isinstance(found, str):
                found = self._cached(model) or found
            asked = Asked(policy, None, found) if isinstance(found, str) else Asked(policy, found)
        self.continuation: Continuation = Continuation(model, asked, door)

    @property
    def is_cached(self) -> bool:
        """Whether its answer goes into a cache of this process."""
        return self._turns.cache is not None

    def _cached(self, model: Model) -> Any:
        # Late: see above.
        from core.turns.cache import conversation_key
        from core.turns.said import is_answer
        from core.turns.state import turn_config

        answers = [place for place, one in enumerate(self._messages) if is_answer(one)]
        if self._turns.cache is None or not answers:
            return None
        key = conversation_key(self._turns.caller, self._messages[: answers[-1] + 1])
        last = self._turns.cache.get(key)
        return last if last is not None and last.state.config == turn_config(model) else None

    def told(self) -> Json:
        """What the answer shows beside its choices: only where the request asked."""
        return {"continuation": self.continuation.result.fields()["continuation"]} if self.asked else {}

    def answered(self, token_ids: Sequence[int], outputs: Sequence[ChoiceOutput]) -> Json | None:
        """What the message of a complete choice carries, from all its outputs; None where nothing can continue."""
        # Late: see above.
        from core.turns.asked import Last
        from core.turns.cache import conversation_key
        from core.turns.carried import carried_turn
        from core.turns.said import said_by

        result = self.continuation.result
        sampled = [number for output in outputs for number in output.source.token_ids or ()]
        if result.state is None or not sampled:
            return None
        if self._turns.cache is not None:
            key = conversation_key(self._turns.caller, self._messages, said_by(outputs))
            self._turns.cache.put(key, Last(list(token_ids), sampled, result.state))
        # Ids that the client gave beside its messages are on none of them.
        return carried_turn(result.state, result.kept if self._chained else 0, token_ids, sampled)
