"""Where we answer something else than was recorded, one by one: which cases, why, and what we answer instead.

A case of an entry that answers as recorded fails the tests: a deviation that is gone is taken off the list.
"""

from __future__ import annotations

import copy
import fnmatch
from collections.abc import Callable
from dataclasses import dataclass

from tests.dialects.recorded import Json, joined

Check = Callable[[Json, Json], bool]
"""(recorded answer, our answer) -> whether ours is as the deviation says."""


@dataclass(frozen=True)
class Deviation:
    """``pattern`` is a glob over ids of cases."""

    pattern: str
    reason: str
    check: Check

    def covers(self, case_id: str) -> bool:
        return fnmatch.fnmatchcase(case_id, self.pattern)


def _anthropic(status: int, kind: str, words: str = "") -> Check:
    """An error in Anthropic's shape; with the words of the recorded one, where none are given."""

    def check(recorded: Json, ours: Json) -> bool:
        body = recorded.get("body") or {}
        said = words or body["error"]["message"]
        error = ours.get("body", {}).get("error", {})
        return (
            ours["status"] == status
            and ours["body"].get("type") == "error"
            and error.get("type") == kind
            and said in error["message"]
        )

    return check


def _has_input(expected: Json) -> Check:
    def check(recorded: Json, ours: Json) -> bool:
        (block,) = ours["body"]["content"]
        return ours["status"] == 200 and block["type"] == "tool_use" and block["input"] == expected

    return check


def _same_joined(recorded: Json, ours: Json) -> bool:
    """The same events, but for where a block's text is cut."""
    return ours["status"] == 200 and joined_events(ours) == joined_events(recorded)


def joined_events(answer: Json) -> list[Json]:
    return joined([event["data"] for event in answer["events"]])


def _reaches_the_engine(recorded: Json, ours: Json) -> bool:
    """The key is taken; there is no engine behind a case that was refused, which is then what is said."""
    return _anthropic(502, "api_error", "the engine's answer ended before it was complete")(recorded, ours)


_IS_SCHEMA_ERROR = _anthropic(400, "invalid_request_error")
_SHAPE = "schema errors of the endpoints that Anthropic's clients use are in Anthropic's shape, in vLLM's words"
_ENGINE = "what the engine fails at says so, with 502, where vLLM says nothing, with 500; here before the first event"
_GAVE_UP = _anthropic(502, "api_error", "the engine failed while it generated")
_RELEASE = (
    "text goes out as soon as no stop sequence can begin in it, where vLLM holds a fixed number of characters back"
)
_SCHEMA_ERRORS = (
    "max-tokens-0",
    "max-tokens-negative",
    "max-tokens-float",
    "empty-model",
    "no-model",
    "bad-role",
    "bad-block",
    "block-no-type",
    "block-text-number",
    "bad-choice",
    "choice-string",
    "choice-no-name",
    "tool-no-schema",
    "budget-too-large",
    "budget-too-small",
    "thinking-type",
    "system-number",
    "stream-text",
    "stop-number",
    "change-in-user",
    "effort",
    "kwargs-list",
    "several",
    "many-stops",
    "not-json",
    "text-body",
    "no-model-count",
    "bad-role-count",
    "bad-block-count",
    "empty-model-count",
    "choice-no-name-count",
    "count-not-json",
)
MESSAGES: tuple[Deviation, ...] = (
    *(Deviation(f"messages-errors.qwen3.errors.{name}", _SHAPE, _IS_SCHEMA_ERROR) for name in _SCHEMA_ERRORS),
    Deviation("messages.qwen3.engine-error.two-calls-of-one.one", _ENGINE, _GAVE_UP),
    Deviation("messages.qwen3.engine-error.two-calls-of-one.sse", _ENGINE, _GAVE_UP),
    Deviation("messages.qwen3-hermes.engine-error.any-array.one", _ENGINE, _GAVE_UP),
    Deviation("messages.qwen3-hermes.engine-error.any-array.sse", _ENGINE, _GAVE_UP),
    Deviation("messages.qwen3-hermes.choice.any-two.one", _ENGINE, _GAVE_UP),
    Deviation("messages.qwen3-hermes.choice.any-two.sse", _ENGINE, _GAVE_UP),
    Deviation(
        "messages.gpt-oss.tools.malformed.one",
        "arguments that are no JSON are no fault of the client's request, which vLLM answers with 400; its stream, and "
        "we, answer with the call, whose input is what can be read",
        _has_input({}),
    ),
    Deviation("messages.qwen3-hermes.stop.across.sse", _RELEASE, _same_joined),
    Deviation("messages.qwen3-hermes.stop.after-call.sse", _RELEASE, _same_joined),
    Deviation("messages.qwen3-hermes.stop.hit.sse", _RELEASE, _same_joined),
    Deviation("messages.qwen3-hermes.stop.two.sse", _RELEASE, _same_joined),
    Deviation("messages.qwen3.stop.in-thinking.sse", _RELEASE, _same_joined),
    Deviation(
        "messages.qwen3-key.key.wrong.one",
        "a refused key is answered in Anthropic's shape, which its clients read, where vLLM has a shape of its own",
        _anthropic(401, "authentication_error", "a valid API key is required"),
    ),
    Deviation(
        "messages.qwen3-key.key.x-api-key.one",
        "keys are taken from x-api-key, which Anthropic's clients send, as well",
        _reaches_the_engine,
    ),
)


def _vllm(status: int, words: str, kind: str = "") -> Check:
    """An error in vLLM's shape that says ``words``."""

    def check(recorded: Json, ours: Json) -> bool:
        error = ours.get("body", {}).get("error", {})
        return (
            ours["status"] == status
            and isinstance(error, dict)
            and words in error["message"]
            and (not kind or error["type"] == kind)
        )

    return check


def _same_but(*names: str) -> Check:
    """The same answer, but for fields of the response that are null."""

    def check(recorded: Json, ours: Json) -> bool:
        def cut(answer: Json) -> Json:
            bodies = [event["data"].get("response", {}) for event in answer.get("events", ())]
            for body in [*bodies, answer.get("body") or {}]:
                for name in names:
                    body.pop(name, None)
            return answer

        return bool(cut(copy.deepcopy(recorded)) == cut(copy.deepcopy(ours)))

    return check


def _same_text(recorded: Json, ours: Json) -> bool:
    """The same events, but for where a text is cut."""

    def texts(answer: Json) -> list[Json]:
        events = [event["data"] for event in answer["events"]]
        deltas = "".join(event["delta"] for event in events if "delta" in event)
        others = [{**event, "sequence_number": 0} for event in events if "delta" not in event]
        return [deltas, *others]

    return ours["status"] == 200 and texts(ours) == texts(recorded)


_RAW = "enable_response_messages is accepted and not answered: render and tokenize tell what a model was shown"
_RESPONSE_FAILED = _vllm(502, "the engine failed while it generated", "BadGatewayError")
RESPONSES: tuple[Deviation, ...] = (
    Deviation("responses.qwen3-hermes.engine-error.required-array.one", _ENGINE, _RESPONSE_FAILED),
    Deviation("responses.qwen3-hermes.engine-error.required-array.sse", _ENGINE, _RESPONSE_FAILED),
    Deviation("responses.qwen3.engine-error.blank-after-thinking.one", _ENGINE, _RESPONSE_FAILED),
    Deviation("responses.qwen3.engine-error.blank-after-thinking.sse", _ENGINE, _RESPONSE_FAILED),
    Deviation("responses.gpt-oss.engine-error.unmarked-json.one", _ENGINE, _RESPONSE_FAILED),
    Deviation("responses.gpt-oss.engine-error.unmarked-json.sse", _ENGINE, _RESPONSE_FAILED),
    Deviation("responses.qwen3-hermes.length.stop-string.sse", _RELEASE, _same_text),
    Deviation(
        "responses.qwen3-hermes.logprobs.too-many.one",
        "it is the engine that refuses so many, in these words; there is none behind a case that was refused",
        _vllm(502, "the engine's answer ended before it was complete"),
    ),
    Deviation(
        "responses.qwen3-hermes.logprobs.too-many.sse",
        "as above; and what the engine refuses has its status, where vLLM breaks the stream off",
        _vllm(502, "the engine's stream ended before the answer was complete"),
    ),
    Deviation("responses.gpt-oss.options.raw-messages.one", _RAW, _same_but("input_messages", "output_messages")),
    Deviation("responses.gpt-oss.options.raw-messages.sse", _RAW, _same_but("input_messages", "output_messages")),
    Deviation(
        "responses.qwen3-parsable.parsable.raw-messages.one", _RAW, _same_but("input_messages", "output_messages")
    ),
    Deviation(
        "responses.qwen3-key.key.none.*", "a refused key is told in the shape of all errors", _vllm(401, "API key")
    ),
)
