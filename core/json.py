"""JSON as Python holds it."""

from __future__ import annotations

from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]
"""A JSON object."""

JsonValue: TypeAlias = Any
"""None, bool, int, float, str, or lists and string-keyed dicts of these."""
