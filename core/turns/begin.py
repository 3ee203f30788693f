"""The beginning of a request that continues: its field read, and the last turn found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.model import Model
from core.turns.asked import Asked, Policy, read, take
from core.turns.carried import gather, without_turns
from core.turns.continuation import Continuation
from core.turns.door import CHAT, Door


def begin(
    model: Model, body: Mapping[str, Any], default: Policy | None = None, door: Door = CHAT
) -> tuple[Any, Continuation | None]:
    """A body as vLLM knows it, and the continuation that it asks for.

    A request without ids goes by those that its messages carry. ``default`` is
    the policy of a deployment that continues without being asked.

    Raises:
        BadRequest, SchemaError: the field is not of its form, or does not match.
    """
    rest, given = take(model, body)
    rest = without_turns(rest, door)
    if given is None and default is None:
        return rest, None
    if given is not None and given.turn_state is not None:
        return rest, Continuation(model, read(model, given), door)
    policy: Policy = given.policy if given is not None else (default or "exact")
    found = gather(model, body, door)
    asked = Asked(policy, None, found) if isinstance(found, str) else Asked(policy, found)
    return rest, Continuation(model, asked, door)
