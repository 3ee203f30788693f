"""The verdict on one case: the answer against the recording and the accepted deviations.

It must never run anything: it sees a case and an answer.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from tests.golden import corpus
from tests.golden.corpus import Case, Json, Mode
from tests.golden.deviations import DEVIATIONS, Deviation
from tests.golden.difference import Difference, answer_differences, differences


@dataclass(frozen=True)
class Verdict:
    """What was found for one case.

    `differences` are those from the recording; `broken_promise` are those from what an accepted deviation says that
    we answer.  `exact` is false where only the shape of a schema error was compared.
    """

    differences: list[Difference]
    deviation: Deviation | None = None
    broken_promise: tuple[Difference, ...] = ()
    exact: bool = True

    @property
    def accepted(self) -> bool:
        if self.deviation is None:
            return not self.differences
        return bool(self.differences) and not self.broken_promise

    def report(self, limit: int | None = None, width: int = 240) -> str:
        """The differences, a line each; long values are cut after `width` characters."""
        lines = []
        found: Sequence[Difference] = self.differences
        if self.deviation is not None:
            lines.append(f"    deviation {self.deviation.pattern!r}: {self.deviation.reason}")
            found = self.broken_promise
            if not self.differences:
                lines.append("    it answers as recorded: take it off the list of deviations")
        for difference in found[:limit]:
            lines.append(f"    {difference.path or '(whole)'}")
            lines.append(f"        want {_short(difference.want, width)}")
            lines.append(f"        got  {_short(difference.got, width)}")
        if limit is not None and len(found) > limit:
            lines.append(f"    ... and {len(found) - limit} more")
        return "\n".join(lines)


def _short(value: Json, width: int) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= width else f"{text[:width]}... ({len(text)} characters)"


def expected(case: Case) -> Json:
    """The recorded answer: `{status, body}`, or for a stream the list of its answers."""
    return case["stream"]["responses"] if "stream" in case else case["response"]


def comparable(answer: Json, case: Case, mode: Mode) -> Json:
    """`answer` without what the state mode is free to do differently.

    vLLM replays; our checkpoint carries the parser in fields of its own, so the state of a stream through a parser
    is compared in replay mode only.
    """
    if mode == "replay" or not corpus.through_parser(case):
        return answer
    if isinstance(answer, list):
        return [{key: value for key, value in one.items() if key != "state"} for one in answer]
    body = answer.get("body")
    if not isinstance(body, dict):
        return answer
    return {**answer, "body": {key: value for key, value in body.items() if key != "stream_state"}}


def judge(case: Case, got: Json, mode: Mode, deviations: Sequence[Deviation] = DEVIATIONS) -> Verdict:
    """Compare the answer of one case with the recording."""
    want, got = comparable(expected(case), case, mode), comparable(got, case, mode)
    found = answer_differences(want, got)
    exact = not found and not differences(want, got)
    for deviation in deviations:
        if deviation.covers(case, mode):
            return Verdict(found, deviation, tuple(deviation.check(case, got)), exact)
    return Verdict(found, exact=exact)
