"""mistral-common's grammars under the interface that vLLM's parser calls.

vLLM 0.33.0 hands a named tool choice to the grammar factory as it is, which
mistral-common takes up to 1.12; 1.13 wants the choice resolved, and vLLM's own
server then answers every request with tools with an error. This module must
never write a grammar itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class MistralGrammars:
    """A ``GrammarFactory`` of mistral-common 1.13 that resolves tool choices."""

    def __init__(self, factory: Any) -> None:
        self._factory = factory

    def select_jinja_template(self) -> str:
        """The grammar's template for the version of the vocabulary."""
        template: str = self._factory.select_jinja_template()
        return template

    def get_lark_for_json_schema(self, template: str, json_schema: dict[str, Any]) -> str:
        """The grammar of an answer that is JSON of a schema."""
        grammar: str = self._factory.get_lark_for_json_schema(template=template, json_schema=json_schema)
        return grammar

    def get_lark_from_jinja(
        self,
        template: str,
        mode: Any,
        tools: Sequence[Any] | None,
        json_schema: dict[str, Any] | None,
        parallel_tool_calls: bool,
        json_only: bool = False,
    ) -> str:
        """The grammar of an answer; ``mode`` is mistral-common's tool choice, or one that names a tool.

        Raises:
            ValueError: a tool must be called, and there is none, or none of that name.
        """
        named = getattr(mode, "function", None)
        if named is not None:
            tools = [tool for tool in tools or () if tool.function.name == named.name]
            if not tools:
                raise ValueError(f"tool_choice names the tool {named.name}, which is not among the tools")
        grammar: str = self._factory.get_lark_from_jinja(
            template=template,
            mode=mode if named is None else "required",
            tools=tools,
            json_schema=json_schema,
            parallel_tool_calls=parallel_tool_calls,
            json_only=json_only,
            force_tool_names=named is not None,
        )
        return grammar
