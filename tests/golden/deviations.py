"""The accepted deviations from the recording: where we answer something else than vLLM 0.33.0 on purpose.

Every entry says why, and checks what we answer instead.  A case of an entry that answers as recorded fails the
tests: a deviation that is gone must be taken off this list.  It must never be used to silence a case that is merely
wrong.
"""

from collections.abc import Callable
from dataclasses import dataclass

from core.upstream.version import slice_version
from tests.golden import corpus
from tests.golden.corpus import Case, Json, Mode
from tests.golden.difference import ABSENT, Difference, answer_differences, differences

Check = Callable[[Case, Json], list[Difference]]
"""(case, our answer) -> what is not as the deviation promises; empty when all is."""


@dataclass(frozen=True)
class Deviation:
    """`pattern` is a case id or a glob over ids, `modes` the state modes in which the cases deviate.

    With `when`, only those of the cases deviate for which it is true.
    """

    pattern: str
    reason: str
    check: Check
    modes: tuple[Mode, ...] = corpus.MODES
    when: Callable[[Case], bool] = lambda case: True

    def covers(self, case: Case, mode: Mode) -> bool:
        return mode in self.modes and corpus.matches(self.pattern, case["id"]) and self.when(case)


def answers_error(status: int, message: str, **fields: Json) -> Check:
    """We answer an error: this status, a message that contains `message`, and the given fields of the error object.

    A stream's last answer must be that error.
    """

    def check(case: Case, got: Json) -> list[Difference]:
        last = got[-1] if isinstance(got, list) and got else got
        found = differences(status, last.get("status"), ".status")
        body = last.get("body")
        error = body.get("error") if isinstance(body, dict) else None
        if not isinstance(error, dict):
            return [*found, Difference(".body.error", {"message": message, **fields}, body)]
        if message not in str(error.get("message")):
            found.append(Difference(".body.error.message", f"... {message} ...", error.get("message", ABSENT)))
        for name, value in fields.items():
            found += differences(value, error.get(name, ABSENT), f".body.error.{name}")
        return found

    return check


def answers_as_recorded_except(replaced: dict[str, Json]) -> Check:
    """We answer what is recorded, but for the given paths (as the reports write them: `.body.choices[0].text`).

    The value of a path is what we answer there; `ABSENT` where we leave the field out.
    """

    def check(case: Case, got: Json) -> list[Difference]:
        recorded = case["stream"]["responses"] if "stream" in case else case["response"]
        found = {d.path: d for d in answer_differences(recorded, got)}
        wrong = [d for path, d in found.items() if path not in replaced]
        for path, value in replaced.items():
            answered = found[path].got if path in found else "(as recorded)"
            wrong += differences(value, answered, path)
        return wrong

    return check


_IDS = answers_error(400, "must hold token ids between 0 and 4294967295", type="BadRequestError")
_OFFSETS = answers_error(400, "must be in order and within prev_tokens", type="BadRequestError")
_OLDER_LOGPROBS = "vLLM 0.33.0 no longer reads the older `token_id:N` logprobs; the API page documents them, so we do"
_NO_CHECKPOINT = answers_error(400, "checkpoint is missing", type="BadRequestError")
_LOST = (
    "a parsed stream's state with a decode window and no checkpoint comes from another stream, or from a client that "
    "dropped fields: refused, where vLLM begins the parser anew"
)
_TAMPERED = "offsets that are out of order or beyond the decode window are refused, where vLLM decodes odd text"
_HUGE_IDS = "an id below 0 or above 32 bits in a stream or its state is refused, where vLLM answers with empty text"


def _answers(case: Case, got: Json) -> list[Difference]:
    """We answer with a whole response, where the recording has an error."""
    return differences(200, got.get("status"), ".status") + differences(
        True, "choices" in (got.get("body") or {}), ".body.choices"
    )


def _without_limit(case: Case) -> bool:
    """vLLM rendered a request for an engine that does not say how many tokens it may write."""
    answer = case.get("response")
    if answer is None or answer["status"] != 200 or not case["endpoint"].endswith("/render"):
        return False
    body = answer["body"]
    return any("max_tokens" not in one["sampling_params"] for one in (body if isinstance(body, list) else [body]))


def is_written_limit(found: Difference) -> bool:
    """The difference is the limit of 16 tokens that vLLM leaves out, and we write."""
    return found.path.endswith(".sampling_params.max_tokens") and (found.want, found.got) == (ABSENT, 16)


def _limit_written(case: Case, got: Json) -> list[Difference]:
    """We answer what is recorded, and the limit of tokens."""
    return [found for found in answer_differences(case["response"], got) if not is_written_limit(found)]


LIMIT_WRITTEN = Deviation(
    "*",
    "`max_tokens` is always written: an engine that is not told gives all that its context holds, not the 16 of vLLM's "
    "sampling parameters",
    _limit_written,
    when=_without_limit,
)

DEVIATIONS: tuple[Deviation, ...] = (
    Deviation("errors.stream.negative-token*", _HUGE_IDS, _IDS),
    Deviation("errors.stream.huge-token*", _HUGE_IDS, _IDS),
    Deviation("errors.state.output-ids-negative*", _HUGE_IDS, _IDS),
    Deviation("errors.state.output-ids-huge*", _HUGE_IDS, _IDS),
    Deviation("errors.state.context-huge*", _HUGE_IDS, _IDS),
    Deviation(
        "errors.stream.huge-prompt-id",
        "the error names the cause, where vLLM says only that the state is invalid",
        answers_error(400, "number too large to fit in target type", type="BadRequestError"),
    ),
    Deviation("errors.state.offsets-beyond", _TAMPERED, _OFFSETS),
    Deviation("errors.state.offsets-beyond.comp", _TAMPERED, _OFFSETS),
    Deviation("errors.state.offsets-beyond.parser", _LOST, _NO_CHECKPOINT),
    Deviation("bugs.f05.qwen3.tampered1", _LOST, _NO_CHECKPOINT),
    Deviation(
        "misc.get.version",
        "`slice` says which slice of vLLM the parsers are",
        answers_as_recorded_except({".body.slice": slice_version()}),
    ),
    Deviation("errors.state.read-before-prefix", _TAMPERED, _OFFSETS),
    Deviation("errors.state.read-before-prefix.comp", _TAMPERED, _OFFSETS),
    Deviation("logprobs.shape.string-token_id.*", _OLDER_LOGPROBS, _answers),
    Deviation("bugs.b01.qwen3.one", _OLDER_LOGPROBS, _answers),
    Deviation("bugs.b06.qwen3.A", _OLDER_LOGPROBS, _answers),
    LIMIT_WRITTEN,
)
