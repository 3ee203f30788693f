"""Answers in the form in which they were recorded: without times, random ids replaced by numbered names.

It must never hide anything else: a field that is neither a time nor a random id is compared as it is.
"""

import re

from tests.golden.corpus import Json

# The fields of a stream state, with the values at which the recording leaves them out.
STATE_DEFAULTS: dict[str, Json] = {
    "prev_tokens": [],
    "prefix_offset": 0,
    "read_offset": 0,
    "role_sent": False,
    "logprob_context_token_ids": [],
    "logprob_text_offset": 0,
    "output_token_ids": [],
    "output_chunk_lens": [],
    "tools_streamed": False,
    "last_tool_call_ids": [],
}
# Fields of ours that vLLM's state does not have.
STATE_ADDITIONS = frozenset({"index", "request_id", "config", "checkpoint", "context", "signature"})

_PREFIXED_ID = re.compile(
    r"^(chatcmpl-tool-|chatcmpl-|cmpl-|call_\d+_|call_|modelperm-)?"
    r"([0-9a-f]{16,64}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"
    r"(-\d+)?$"
)
_MISTRAL_ID = re.compile(r"^[A-Za-z0-9]{9}$")


class IdNames:
    """Names random ids `$1`, `$2`, ... in order of first appearance, so that relations between answers are kept.

    One instance serves one case.
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def _name(self, text: str) -> str:
        return f"${self._numbers.setdefault(text, len(self._numbers) + 1)}"

    def _id(self, text: str, *, of_call: bool) -> str:
        match = _PREFIXED_ID.match(text)
        if match:
            return (match[1] or "") + self._name(match[2]) + (match[3] or "")
        if of_call and _MISTRAL_ID.match(text):
            return "mistral-" + self._name(text)
        return text

    def normalise(self, value: Json, key: str | None = None, parent: Json = None) -> Json:
        """`value` without `created` fields and with every random id named."""
        if isinstance(value, dict):
            left_out = STATE_ADDITIONS if key == "stream_state" else frozenset({"created"})
            return {k: self.normalise(v, k, value) for k, v in value.items() if k not in left_out}
        if isinstance(value, list):
            return [self.normalise(v, key, parent) for v in value]
        if not isinstance(value, str):
            return value
        if key == "root":  # /v1/models gives the model folder's path
            return value.rsplit("/", 1)[-1]
        if key in ("id", "request_id", "last_tool_call_ids"):
            of_call = key == "last_tool_call_ids" or (isinstance(parent, dict) and "function" in parent)
            return self._id(value, of_call=of_call)
        return value


def state_summary(state: dict[str, Json], names: IdNames) -> dict[str, Json]:
    """What the recording keeps of a returned stream state: vLLM's fields that are not at their default.

    The two replay lists are kept as their lengths `n_output_tokens` and `n_chunks`.
    """
    summary: dict[str, Json] = {}
    for key, value in state.items():
        if key in STATE_ADDITIONS or value == STATE_DEFAULTS.get(key):
            continue
        if key == "output_token_ids":
            summary["n_output_tokens"] = len(value)
        elif key == "output_chunk_lens":
            summary["n_chunks"] = len(value)
        else:
            summary[key] = names.normalise(value, key)
    return summary
