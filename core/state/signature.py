"""Signing a stream state, so that only what this deployment wrote is read back.

HMAC-SHA256 over everything else in the state. Several keys are accepted and
the first signs, so that a key can be replaced without breaking the streams
that are in flight.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from core.errors import ConfigurationError, InvalidState
from core.protocol.json_text import json_bytes

FIELD = "signature"
# Binds a signature to its purpose: a key used elsewhere signs nothing here, and the other way round.
_SALT = b"derender.stream_state.1"
TURNS = b"derender.turn_state.1"
MIN_KEY_BYTES = 16


class StateSigner:
    """Signs and checks states with a list of keys; ``required`` refuses unsigned states.

    ``purpose`` keeps states of different kinds apart.

    Raises:
        ConfigurationError: a key is too short to be one.
    """

    def __init__(self, keys: Sequence[str], required: bool = True, purpose: bytes = _SALT) -> None:
        if not keys or any(len(key.encode()) < MIN_KEY_BYTES for key in keys):
            raise ConfigurationError(f"state_key: each key must have at least {MIN_KEY_BYTES} bytes")
        from itsdangerous import Signer  # late: eight modules, for a deployment with keys alone

        self.required = required
        # The package signs with the last key of its list.
        self._signer = Signer(
            [key.encode() for key in reversed(keys)],
            salt=purpose,
            key_derivation="hmac",
            digest_method=hashlib.sha256,
        )

    def sign(self, state: Mapping[str, Any]) -> str:
        """The signature of a state's other fields."""
        return self._signer.get_signature(canonical(state)).decode("ascii")

    def signs(self, state: Mapping[str, Any], signature: str) -> bool:
        """Whether one of the keys signed the state's other fields so."""
        return bool(self._signer.verify_signature(canonical(state), signature))

    def check(self, state: Mapping[str, Any], signature: str | None) -> None:
        """Refuse a state that none of the keys signed.

        Raises:
            InvalidState: the signature is missing where it is required, or wrong.
        """
        if signature is None:
            if self.required:
                raise InvalidState("signature is missing; this deployment reads only states that it signed", _PARAM)
            return
        if not self.signs(state, signature):
            raise InvalidState("signature does not match: the state was altered, or signed with another key", _PARAM)


_PARAM = f"stream_state.{FIELD}"


def canonical(state: Mapping[str, Any]) -> bytes:
    """The bytes that are signed: all fields but the signature, in one fixed form."""
    fields = {name: value for name, value in state.items() if name != FIELD}
    return json_bytes(fields, sort_keys=True)
