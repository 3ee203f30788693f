"""What a chat or completion request says about its output.

Derender reads a handful of a request's fields. A request that uses only
plain fields with plain values is read here directly; every other one goes
through vLLM's own request types first, so that what vLLM refuses is refused
in its words. The direct reading never accepts what vLLM would not
(``tests/protocol/test_output_options.py`` compares the two).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from core.text.detokenizer import DecodeOptions
from core.text.logprobs import chat_top_limit, completion_top_limit
from core.text.stop import StopOptions, stop_strings


@dataclass(frozen=True)
class OutputOptions:
    """The output half of a request; the defaults are those of a missing request."""

    stop: StopOptions = field(default_factory=StopOptions)
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True
    top_limit: int | None = None
    return_token_ids: bool = False
    include_reasoning: bool = True

    def decode_options(self, is_fast: bool, keep_special: bool = False) -> DecodeOptions:
        """How to decode, by the engine's rules.

        A parser needs the special tokens (``keep_special``). The engine's fast
        detokenizer puts no spaces between special tokens that it skips, so
        the setting counts only where they are kept or the tokenizer is slow.
        """
        skip = self.skip_special_tokens and not keep_special
        return DecodeOptions(skip, True if skip and is_fast else self.spaces_between_special_tokens)


NO_REQUEST = OutputOptions()


def _is_int(value: Any) -> bool:
    return type(value) is int and abs(value) < 2**31


def _is_count(value: Any) -> bool:
    return _is_int(value) and value >= 1


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= 2


def _is_stop(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(s, str) for s in value))


def _is_ids(value: Any) -> bool:
    return isinstance(value, list) and all(_is_int(i) and i >= 0 for i in value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_plain_messages(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(m, dict)
        and set(m) == {"role", "content"}
        and m["role"] in ("system", "user", "assistant")
        and isinstance(m["content"], str)
        for m in value
    )


def _is_prompt(value: Any) -> bool:
    return isinstance(value, str) and value != ""


_SHARED: dict[str, Callable[[Any], bool]] = {
    "model": _is_text,
    "max_tokens": _is_count,
    "temperature": _is_number,
    "n": _is_count,
    "seed": _is_int,
    "user": _is_text,
    "stream": _is_flag,
    "stop": _is_stop,
    "stop_token_ids": _is_ids,
    "ignore_eos": _is_flag,
    "min_tokens": lambda v: _is_int(v) and v >= 0,
    "include_stop_str_in_output": _is_flag,
    "skip_special_tokens": _is_flag,
    "spaces_between_special_tokens": _is_flag,
    "return_token_ids": _is_flag,
}
_CHAT = {**_SHARED, "messages": _is_plain_messages, "max_completion_tokens": _is_count, "include_reasoning": _is_flag}
_COMPLETION = {**_SHARED, "prompt": _is_prompt}


def plain_chat_options(request: Mapping[str, Any]) -> OutputOptions | None:
    """The options of a chat request that is plainly valid; None when vLLM's own type must judge."""
    if "messages" not in request or not _all_plain(request, _CHAT):
        return None
    return read_options(request.get, top_limit=None)


def plain_completion_options(request: Mapping[str, Any]) -> OutputOptions | None:
    """The options of a completion request that is plainly valid; None when vLLM's own type must judge."""
    if "prompt" not in request or not _all_plain(request, _COMPLETION):
        return None
    return read_options(request.get, top_limit=None)


def chat_options(request: Any) -> OutputOptions:
    """The options of a chat request that vLLM's own type has validated."""
    keep_all = bool(request.logprob_token_ids)
    return read_options(_getter(request), chat_top_limit(request.logprobs, request.top_logprobs, keep_all))


def completion_options(request: Any) -> OutputOptions:
    """The options of a completion request that vLLM's own type has validated."""
    return read_options(_getter(request), completion_top_limit(request.logprobs, bool(request.logprob_token_ids)))


def _getter(request: Any) -> Callable[[str, Any], Any]:
    def get(name: str, default: Any = None) -> Any:
        return getattr(request, name, default)

    return get


def read_options(get: Callable[[str, Any], Any], top_limit: int | None) -> OutputOptions:
    """Read the output fields through ``get(name, default)``."""
    return OutputOptions(
        stop=StopOptions(
            strings=stop_strings(get("stop", None)),
            token_ids=frozenset(get("stop_token_ids", None) or ()),
            ignore_eos=bool(get("ignore_eos", False)),
            include_in_output=bool(get("include_stop_str_in_output", False)),
            min_tokens=max(get("min_tokens", 0) or 0, 0),
        ),
        skip_special_tokens=get("skip_special_tokens", True) is not False,
        spaces_between_special_tokens=bool(get("spaces_between_special_tokens", True)),
        top_limit=top_limit,
        return_token_ids=bool(get("return_token_ids", False)),
        include_reasoning=bool(get("include_reasoning", True)),
    )


def _all_plain(request: Mapping[str, Any], checks: Mapping[str, Callable[[Any], bool]]) -> bool:
    return all(name in checks and (value is not None and checks[name](value)) for name, value in request.items())
