"""Lists in bodies: each has a largest length, which is checked while it is read, and ends at its first fault.

A fault costs some 500 bytes to describe; without an end a list of two million
wrong numbers would take a gigabyte to refuse. The lengths are far above what a
model takes (``core.bounds`` knows that); they are what no deployment reads.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, NonNegativeInt, PositiveInt
from pydantic_core import PydanticCustomError

# Tokens of the longest contexts there are, and then some.
MAX_IDS = 2**24
# Choices of all answers of one body; vLLM's own default of a deployment is 16,384.
MAX_CHOICES = 65_536

Ids = Annotated[list[int], Field(max_length=MAX_IDS, fail_fast=True)]
PromptIds = Annotated[list[NonNegativeInt], Field(max_length=MAX_IDS, fail_fast=True)]
Lengths = Annotated[list[PositiveInt], Field(max_length=MAX_IDS, fail_fast=True)]


def empty() -> list[Any]:
    """The default of a list. Pydantic parses the signature of a factory; that of ``list`` costs a start 10 ms."""
    return []


def _few_choices(answers: Any) -> Any:
    """Refuse answers that hold more choices together than are read, before one is built."""
    if isinstance(answers, list):
        choices = (answer.get("choices") for answer in answers if isinstance(answer, dict))
        count = sum(len(listed) for listed in choices if isinstance(listed, list))
        if count > MAX_CHOICES:
            raise PydanticCustomError(
                "too_long",
                "Answers should hold at most {most} choices together, not {count}",
                {"most": MAX_CHOICES, "count": count},
            )
    return answers


# For a list of answers or of chunks.
FewChoices = BeforeValidator(_few_choices)
