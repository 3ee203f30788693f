"""Which of a client's fields for the engine reach it.

The ids that a client chooses are never the engine's. Transfer parameters say
where an engine fetches its cache from, a cache salt names another's cache, a
priority overtakes others, and extra arguments go to whatever the engine has
loaded: each reaches it only where the deployment says so. A field that does not
is refused, not dropped: the client meant it.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection
from dataclasses import dataclass

from core.errors import BadRequest
from core.json import Json
from core.options import PASSABLE

# Render uses these up: they are the prompt.
_RENDERED = "prompt_token_ids"


@dataclass(frozen=True)
class Passing:
    """A deployment's rule for one caller.

    ``allowed`` are names of ``PASSABLE``. ``caller`` is what the client's key
    is known by, None where no keys are used: salts of different callers are
    different at the engine, whatever they are.
    """

    allowed: Collection[str] = ()
    caller: bytes | None = None

    def pass_on(self, rendered: Json) -> Json:
        """A rendered request with what may reach the engine, and nothing else of these fields.

        Raises:
            BadRequest: the client set a field that is not allowed; names the setting.
        """
        passed = dict(rendered)
        transfer = passed["kv_transfer_params"]
        if transfer is not None and "kv_transfer_params" not in self.allowed and set(transfer) == {_RENDERED}:
            passed["kv_transfer_params"] = None
        given = {name for name in PASSABLE if passed.get(name)}
        if passed["sampling_params"].get("extra_args"):
            given.add("vllm_xargs")
        for name in sorted(given.difference(self.allowed)):
            raise BadRequest(
                f"{name} is not passed on to the engine by this deployment; "
                f"its setting engine_params says which fields are",
                name,
            )
        salt = passed["cache_salt"]
        if salt and self.caller is not None:
            digest = hmac.new(self.caller, salt.encode("utf-8", "surrogatepass"), hashlib.sha256)
            passed["cache_salt"] = digest.hexdigest()
        return passed


NOTHING = Passing()
