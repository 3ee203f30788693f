"""The step limit of templates that clients send."""

from __future__ import annotations

import pytest
from jinja2 import TemplateRuntimeError, TemplateSyntaxError
from vllm._slice.chat_template import compile_chat_template

from core.render.step_limit import compile_limited

ENVIRONMENT = compile_chat_template("").environment
LOOPS = "{% for a in range(3) %}{% for b in range(4) if b % 2 %}{{ a }}{{ b }} {% endfor %}{% endfor %}"


def test_the_output_is_that_of_the_unlimited_template() -> None:
    assert compile_limited(LOOPS, ENVIRONMENT).render() == ENVIRONMENT.from_string(LOOPS).render() != ""


def test_every_round_condition_and_call_is_a_step() -> None:
    rounds = 3 + 3 * 4 + 3 * 2
    assert compile_limited(LOOPS, ENVIRONMENT, rounds).render()
    with pytest.raises(TemplateRuntimeError, match="too many steps"):
        compile_limited(LOOPS, ENVIRONMENT, rounds - 1).render()
    calls = "{% macro m() %}x{% endmacro %}{{ m() }}{{ m() }}"
    assert compile_limited(calls, ENVIRONMENT, 2).render() == "xx"
    with pytest.raises(TemplateRuntimeError):
        compile_limited(calls, ENVIRONMENT, 1).render()


@pytest.mark.parametrize(
    "source",
    [
        "{% for a in x %}{{ loop.index }}/{{ loop.length }}{{ loop.last }}{% else %}none{% endfor %}",
        "{% for a in [1, [2, 3]] recursive %}{{ loop(a) if a is iterable else a }}{% endfor %}",
        "{% for a in x %}{% if a == 2 %}{% continue %}{% endif %}{{ a }}{% endfor %}",
        "{% generation %}{% for a in x %}{{ a }}{% endfor %}{% endgeneration %}",
        "{% macro m(a, b=2) %}{{ a }}{{ b }}{{ varargs }}{% endmacro %}{{ m(1) }}{{ m(1, 3, 4) }}",
        "{% set ns = namespace(n=0) %}{% for a in x %}{% set ns.n = ns.n + a %}{% endfor %}{{ ns.n | tojson }}",
    ],
)
@pytest.mark.parametrize("x", [[1, 2, 3], []])
def test_loops_mean_what_they_meant(source: str, x: list[int]) -> None:
    assert compile_limited(source, ENVIRONMENT).render(x=x) == ENVIRONMENT.from_string(source).render(x=x)


def test_the_budget_is_of_one_template_and_not_in_its_reach() -> None:
    template = compile_limited("{% for a in range(5) %}{% endfor %}", ENVIRONMENT, 5)
    template.render()
    with pytest.raises(TemplateRuntimeError):
        template.render()  # one compilation serves one rendering
    assert compile_limited("{% for a in range(5) %}{% endfor %}", ENVIRONMENT, 5).render() == ""
    assert "derender step" not in ENVIRONMENT.filters
    with pytest.raises(TemplateSyntaxError):
        compile_limited("{{ 1 | derender step }}", ENVIRONMENT)
