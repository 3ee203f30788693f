"""Grammars through the interface that vLLM's parser calls, against mistral-common's own way from a whole request."""

from collections.abc import Callable
from typing import Any

import pytest

from core.tokenizer.mistral import TekkenTokenizer

Of = Callable[[str], TekkenTokenizer]


def tool(name: str, *, strict: bool = False) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    return {"type": "function", "function": {"name": name, "parameters": parameters, "strict": strict}}


TOOL_CHOICES: list[Any] = ["auto", "none", "required", {"type": "function", "function": {"name": "add"}}]


@pytest.mark.parametrize("version", ["v11", "v13", "v15"])
@pytest.mark.parametrize("choice", TOOL_CHOICES, ids=str)
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("parallel", [False, True])
def test_tool_choices(tekken_of: Of, version: str, choice: Any, strict: bool, parallel: bool) -> None:
    from mistral_common.guidance.grammar_factory import GrammarFactory
    from mistral_common.protocol.instruct.request import ChatCompletionRequest

    tokenizer = tekken_of(version)
    request = ChatCompletionRequest.from_openai(
        messages=[{"role": "user", "content": "hi"}],
        tools=[tool("get_weather"), tool("add", strict=strict)],
        tool_choice=choice,
        parallel_tool_calls=parallel,
    )
    grammars = tokenizer.grammar_factory
    template = grammars.select_jinja_template()
    found = grammars.get_lark_from_jinja(template, request.tool_choice, request.tools, None, parallel)
    assert found == GrammarFactory(tokenizer.mistral).get_grammar_for_chat_request(request, template)


@pytest.mark.parametrize("version", ["v11", "v13", "v15"])
def test_the_grammar_of_a_schema(tekken_of: Of, version: str) -> None:
    import llguidance

    tokenizer = tekken_of(version)
    grammars = tokenizer.grammar_factory
    grammar = grammars.get_lark_for_json_schema(grammars.select_jinja_template(), {"type": "object"})
    matcher = llguidance.LLMatcher(tokenizer.llg_tokenizer, grammar)
    ids = tokenizer.encode('{"a": [1]}', add_special_tokens=False)
    assert matcher.get_error() == ""
    assert matcher.validate_tokens(ids) == len(ids)
    assert matcher.validate_tokens(tokenizer.encode("no JSON", add_special_tokens=False)) == 0


def test_a_named_tool_must_be_there(tekken_of: Of) -> None:
    from mistral_common.protocol.instruct.tool_calls import FunctionName, NamedToolChoice

    grammars = tekken_of("v13").grammar_factory
    choice = NamedToolChoice(function=FunctionName(name="nope"))
    with pytest.raises(ValueError, match="nope"):
        grammars.get_lark_from_jinja(grammars.select_jinja_template(), choice, [], None, True)


def test_early_versions_have_none(tekken_of: Of) -> None:
    assert not tekken_of("v3").supports_grammar
    with pytest.raises(AttributeError, match="version 3"):
        _ = tekken_of("v3").grammar_factory
