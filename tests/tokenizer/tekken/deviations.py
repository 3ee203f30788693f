"""Where the service answers something else for a tekken model than vLLM 0.33.0, on purpose."""

from collections.abc import Iterator
from typing import Any

from tests.golden.corpus import Case, Json
from tests.golden.deviations import LIMIT_WRITTEN, Check, Deviation, answers_error
from tests.golden.difference import Difference, answer_differences, differences


def _texts(value: Json) -> Iterator[str]:
    """The output text in a response or chunk, in order: reasoning, content, arguments, completion text."""
    for choice in value.get("choices", ()):
        said: dict[str, Any] = choice.get("message") or choice.get("delta") or choice
        for key in ("reasoning", "content", "text"):
            yield said.get(key) or ""
        for call in said.get("tool_calls") or ():
            yield call["function"]["arguments"] or ""


def says(text: str) -> Check:
    """We answer 200 throughout, and the output is `text`, whole."""

    def check(case: Case, got: Json) -> list[Difference]:
        answers = got if isinstance(got, list) else [got]
        wrong = [d for answer in answers for d in differences(200, answer.get("status"), ".status")]
        values = [answer.get("chunk") or answer.get("body") for answer in answers]
        return wrong or differences(text, "".join(part for value in values for part in _texts(value)), "(output text)")

    return check


def succeeds(case: Case, got: Json) -> list[Difference]:
    """We answer 200."""
    return differences(200, got.get("status"), ".status")


def same_but_for_text(text: str) -> Check:
    """We answer what is recorded, but for the content of the message."""

    def check(case: Case, got: Json) -> list[Difference]:
        found = answer_differences(case["response"], got)
        wrong = [d for d in found if not d.path.endswith("message.content")]
        return wrong or says(text)(case, got)

    return check


_SPLIT = "vLLM turns characters that take several tokens into U+FFFD where special tokens are kept, as for every parser"
_PLAIN = "Hello there, naïve café — 漢字."
_EMOJI = "Ok 👩‍🚀 and 🎉 done"
_BYTES = "vLLM cannot put a token that is part of a character into a stream_state, and fails"
_SEED = "vLLM cannot start after a prompt that ends inside a character, and fails"
_OUTSIDE = "vLLM fails over ids outside the vocabulary, or decodes them as <unk>; they give nothing, as elsewhere"
_WORDS = "the words of the other tokenizers: vLLM has those of tiktoken"
_NO_IDS = "what no tokenizer can hold is refused in a stream, too, and not decoded as nothing"

DEVIATIONS: tuple[Deviation, ...] = (
    Deviation("tekken.*.plain.plain.keep", _SPLIT, same_but_for_text(_PLAIN)),
    Deviation("tekken.*.plain.emoji.keep", _SPLIT, same_but_for_text(_EMOJI)),
    Deviation("tekken.*.parser.plain", _SPLIT, same_but_for_text(_PLAIN)),
    Deviation("tekken.*.parser.emoji", _SPLIT, same_but_for_text(_EMOJI)),
    Deviation("tekken.*.parser.emoji_only", _SPLIT, same_but_for_text("🎉")),
    Deviation("tekken.*.pstream.plain.*", _SPLIT, says(_PLAIN)),
    Deviation("tekken.*.pstream.emoji.*", _SPLIT, says(_EMOJI)),
    Deviation("tekken.*.stream.plain.keep.*", _SPLIT, says(_PLAIN)),
    Deviation("tekken.*.stream.emoji.keep.*", _SPLIT, says(_EMOJI)),
    Deviation("tekken.*.parser.call_emoji", _SPLIT, says('{"city": "🎉 👩‍🚀"}')),
    Deviation("tekken.*.pstream.call_emoji.*", _SPLIT, says('{"city": "🎉 👩‍🚀"}')),
    Deviation("tekken.v11.parser.text_think", _SPLIT, says("Let me think 漢字.Answer is 4.")),
    Deviation("tekken.v11.pstream.text_think.*", _SPLIT, says("Let me think 漢字.Answer is 4.")),
    Deviation("tekken.*.parser.text_think", _SPLIT, says("<think>Let me think 漢字.</think>Answer is 4.")),
    Deviation("tekken.*.pstream.text_think.*", _SPLIT, says("<think>Let me think 漢字.</think>Answer is 4.")),
    Deviation("tekken.*.parser.think_emoji", _SPLIT, says("hm 🎉 👍🏽so 👩‍🚀!")),
    Deviation("tekken.*.pstream.think_emoji.*", _SPLIT, says("hm 🎉 👍🏽so 👩‍🚀!")),
    Deviation("tekken.*.stream.plain.1", _BYTES, says(_PLAIN)),
    Deviation("tekken.*.stream.emoji.?", _BYTES, says(_EMOJI)),
    Deviation("tekken.*.stream.odd_token.?", _BYTES, says("x\ufffdy")),
    Deviation("tekken.*.plain.*.seedmid", _SEED, succeeds),
    Deviation("tekken.*.odd.oov_mid", _OUTSIDE, same_but_for_text(" \ufffd ok")),
    Deviation("tekken.*.odd.oov_mid.stream", _OUTSIDE, says(" \ufffd ok")),
    Deviation("tekken.*.odd.oov*.seed", _OUTSIDE, says("hi ok")),
    Deviation("tekken.*.odd.oov*.logprobs", _OUTSIDE, succeeds),
    Deviation("tekken.*.completion.oov_echo", _OUTSIDE, succeeds),
    Deviation("tekken.*.detokenize.oov", _OUTSIDE, succeeds),
    Deviation(
        "tekken.*.odd.negative.logprobs",
        "vLLM takes -1 for the last special token",
        answers_error(400, "number too small to fit in target type"),
    ),
    Deviation("tekken.*.odd.huge.seed", _WORDS, answers_error(400, "number too large to fit in target type")),
    Deviation("tekken.*.odd.huge.logprobs", _WORDS, answers_error(400, "number too large to fit in target type")),
    Deviation("tekken.*.odd.negative.stream", _NO_IDS, answers_error(400, "must hold token ids between")),
    Deviation("tekken.*.odd.huge.stream", _NO_IDS, answers_error(400, "must hold token ids between")),
    Deviation(
        "tekken.*.render.empty",
        "vLLM says 'list index out of range'",
        answers_error(400, "the conversation has no messages", param="messages"),
    ),
    Deviation(
        "tekken.*.tokenize.chat_tool_turn",
        "vLLM refuses tool calls in /tokenize: it does not read them before it hands them on",
        succeeds,
    ),
    LIMIT_WRITTEN,
)
