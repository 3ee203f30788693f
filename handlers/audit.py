"""What the audit of answers found, in the log and as metrics: one line a request, without any text of it.

The kinds are those of ``core.choice.audit``; ``docs/answers.md`` says what each
means. A request with which nothing is wrong has no line.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request

from core.model import Model
from handlers.logs import request_ids, write_line
from handlers.metrics import NAMESPACE

AUDITED = "audited"
"""The metric that counts choices with which anything is wrong; the kinds have one each, of the same name."""


class RequestFindings:
    """The findings about one request's choices, by kind."""

    def __init__(self, model: Model) -> None:
        self._options = model.options
        self.kinds: Counter[str] = Counter()
        self.choices = 0

    @property
    def parser(self) -> str:
        """The parsers of the deployment, as an operator names them."""
        return "+".join(filter(None, (self._options.tool_call_parser, self._options.reasoning_parser))) or "default"

    def report(self, index: int, findings: Sequence[str]) -> None:
        """Count what was found of one choice; a :class:`~core.choice.output.Report`."""
        self.choices += 1
        self.kinds.update(findings)


def findings_of(request: Request, model: Model, of_prompt: Sequence[str] = ()) -> RequestFindings:
    """Where to report what is found about a request; ``of_prompt`` was found when it was rendered."""
    findings = RequestFindings(model)
    if of_prompt:
        findings.report(0, of_prompt)
    request.state.findings = findings
    return findings


def write_audit(request: Request, endpoint: str, function: str, *, for_cloudwatch: bool = True) -> None:
    """The line of what was found about a request; none where nothing was."""
    findings: RequestFindings | None = getattr(request.state, "findings", None)
    if findings is not None and findings.choices:
        fields = _fields(findings, function, time.time())
        if not for_cloudwatch:
            del fields["_aws"]
        write_line("WARNING", "audit", **request_ids(request), endpoint=endpoint, **fields)


def _fields(findings: RequestFindings, function: str, seconds: float) -> dict[str, Any]:
    """The counts, with what tells CloudWatch that they are metrics; ``seconds`` is the line's time, since the epoch."""
    counts = {AUDITED: findings.choices, **findings.kinds}
    directive = {
        "Namespace": NAMESPACE,
        "Dimensions": [["function"], ["function", "parser"]],
        "Metrics": [{"Name": name, "Unit": "Count"} for name in counts],
    }
    return {
        "function": function,
        "parser": findings.parser,
        **counts,
        "_aws": {"Timestamp": int(seconds * 1000), "CloudWatchMetrics": [directive]},
    }
