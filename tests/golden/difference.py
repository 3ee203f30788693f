"""Where an answer differs from the recorded one.

It must never forgive a difference, but for two: floats are compared to 1e-9, and the wording of schema errors,
which belongs to pydantic and FastAPI, may differ where the shape is right.
"""

import re
from typing import NamedTuple

from tests.golden.corpus import Json

ABSENT = "(absent)"
FLOAT_TOLERANCE = 1e-9

_SCHEMA_ERROR = re.compile(r"^\d+ validation errors?:\n")


class Difference(NamedTuple):
    path: str
    want: Json
    got: Json


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def differences(want: Json, got: Json, path: str = "") -> list[Difference]:
    """Every place where the two JSON values differ.

    A missing key and a null are different, the order of keys is not.
    """
    if type(want) is not type(got) and not (_is_number(want) and _is_number(got)):
        return [Difference(path, want, got)]
    if isinstance(want, dict):
        found: list[Difference] = []
        for key in {**want, **got}:
            if key not in want:
                found.append(Difference(f"{path}.{key}", ABSENT, got[key]))
            elif key not in got:
                found.append(Difference(f"{path}.{key}", want[key], ABSENT))
            else:
                found += differences(want[key], got[key], f"{path}.{key}")
        return found
    if isinstance(want, list):
        if len(want) != len(got):
            return [Difference(f"{path}.length", want, got)]
        return [d for i, (a, b) in enumerate(zip(want, got, strict=True)) for d in differences(a, b, f"{path}[{i}]")]
    if isinstance(want, float) or isinstance(got, float):
        near = abs(want - got) <= FLOAT_TOLERANCE * max(1.0, abs(want))
        return [] if near else [Difference(path, want, got)]
    return [] if want == got else [Difference(path, want, got)]


def is_schema_error(answer: Json) -> bool:
    """Whether the recorded answer is an error found by the request's schema ("N validation errors: ...")."""
    body = answer.get("body") if isinstance(answer, dict) else None
    error = body.get("error") if isinstance(body, dict) else None
    return isinstance(error, dict) and bool(_SCHEMA_ERROR.match(str(error.get("message"))))


def schema_error_differences(want: Json, got: Json, path: str = "") -> list[Difference]:
    """Differences of a schema error, wording aside: status, keys, `type` and `code` must be the recorded ones,
    `message` a text that is not empty, `param` a text or null.
    """
    if not isinstance(got, dict) or not isinstance(got.get("body"), dict):
        return differences(want, got, path)
    error = got["body"].get("error")
    if not isinstance(error, dict):
        return differences(want, got, path)
    recorded = want["body"]["error"]
    shaped = dict(error)
    if isinstance(error.get("message"), str) and error["message"]:
        shaped["message"] = recorded["message"]
    if "param" in error and (error["param"] is None or isinstance(error["param"], str)):
        shaped["param"] = recorded["param"]
    return differences(want, {**got, "body": {**got["body"], "error": shaped}}, path)


def answer_differences(want: Json, got: Json) -> list[Difference]:
    """Differences of a case's answers: one answer, or the list of a stream's."""
    if isinstance(want, list) and isinstance(got, list) and len(want) == len(got):
        pairs = enumerate(zip(want, got, strict=True))
        return [d for i, (a, b) in pairs for d in _one_answer(a, b, f"[{i}]")]
    if isinstance(want, list) and isinstance(got, list):
        # A stream that ended early or late: show where it left the recording, not two whole streams.
        common = min(len(want), len(got))
        found = answer_differences(want[:common], got[:common])
        return [*found, Difference(".length", len(want), len(got))]
    return _one_answer(want, got, "")


def _one_answer(want: Json, got: Json, path: str) -> list[Difference]:
    return schema_error_differences(want, got, path) if is_schema_error(want) else differences(want, got, path)
