"""What a client's template may build: no operation makes more than its bound, and it is refused before it is made."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from jinja2 import TemplateRuntimeError
from vllm._slice.chat_template import compile_chat_template

from core.render.step_limit import compile_limited
from core.render.template_bounds import MAX_SIZE

ENVIRONMENT = compile_chat_template("").environment
MILLION = "'%s'" % ("x" * 1_000_000)
# Each would take a gigabyte or hours in no step, or in few.
BOMBS = [
    "{{ 3**(10**7) }}",
    "{{ (10**1000)**1000 }}",
    "{% set ns = namespace(n=3) %}{% for i in range(40) %}{% set ns.n = ns.n * ns.n %}{% endfor %}{{ ns.n % 7 }}",
    "{{ [1] * (10**8) }}",
    "{{ (10**9) * 'x' }}",
    "{{ ('x' * 10**5) * 10**5 }}",
    "{{ '%0999999999d' % 1 }}",
    "{{ '%*d' % (999999999, 1) }}",
    "{{ '%.999999999f' % 1.5 }}",
    "{{ '%0999999999d'|format(1) }}",
    "{{ '{:0999999999d}'.format(1) }}",
    "{{ '{:{w}}'.format(1, w=999999999) }}",
    "{{ '{a:0999999999d}'.format_map({'a': 1}) }}",
    "{{ lipsum(n=100000) }}",
    "{{ 'x'|center(10**9) }}",
    "{{ 'x'.center(10**9) }}",
    "{{ 'x'.ljust(10**9) }}",
    "{{ 'x'.rjust(10**9) }}",
    "{{ 'x'.zfill(10**9) }}",
    "{{ 'x'.encode().center(10**9) }}",
    "{{ '\t\t\t'.expandtabs(10**9) }}",
    "{{ (1).to_bytes(10**9, 'big') }}",
    "{{ 'x\nx'|indent(10**9, true) }}",
    "{{ ('\n' * 10**6)|indent('x' * 10**4, blank=true) }}",
    "{{ ['x', 'y']|join('z' * 10**6)|length }}{{ (['x'] * 10**5)|join('z' * 10**6) }}",
    "{{ ('z' * 10**6).join(['x'] * 10**5) }}",
    "{{ ('x' * 10**6)|replace('x', 'y' * 10**4) }}",
    "{{ ('x' * 10**6).replace('x', 'y' * 10**4) }}",
    "{{ ('x' * 10**6).replace('', 'y' * 10**4) }}",
    "{{ ('x' * 10**6).translate({120: 'y' * 10**4}) }}",
    "{{ ('x ' * 10**6)|wordwrap(1, wrapstring='y' * 10**4) }}",
    "{{ [1]|batch(10**9, 'x')|list }}",
    "{{ [1]|slice(10**9)|list }}",
    "{{ [[1]]|tojson(indent=10**9) }}",
    "{{ [1, 2]|tojson(separators=('x' * 10**9, '')) }}",
    "{{ strftime_now('%0999999999d') }}",
    "{{ strftime_now('%A' * 10**6) }}",
    "{% set ns = namespace(x='xxxxxxxx') %}{% for i in range(40) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
    "{% set ns = namespace(x='xxxxxxxx') %}{% for i in range(40) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
    "{% set ns = namespace(x=[1, 2]) %}{% for i in range(40) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
    "{% set x = 'xxxxxxxx' %}" + "{% set x %}{{ x }}{{ x }}{% endset %}" * 40,
    "{% macro m(x) %}{{ x }}{{ x }}{% endmacro %}{% set x = 'xxxxxxxx' %}" + "{% set x = m(x) %}" * 40,
    "{% set x = 'x' * 10**6 %}" + "{% set x = [x, x] %}" * 30 + "{{ x }}",
    "{% set x = 'x' * 10**6 %}" + "{% set x = [x, x] %}" * 30 + "{{ x|string|length }}",
    "{% set x = 'x' * 10**6 %}" + "{% set x = [x, x] %}" * 30 + "{{ x|tojson }}",
    "{% set x = 'x' * 10**6 %}" + "{% set x = {'a': x, 'b': x} %}" * 30 + "{{ '' ~ x }}",
    "{% set x = 'x' * 10**6 %}" + "{% set x = [x, x] %}" * 30 + "{{ '%s' % [x] }}",
    "{% set x = 'x' * 10**6 %}" + "{% set x = [x, x] %}" * 30 + "{{ '{}'.format(x) }}",
    "{{ '%(a)s' * 10**5 % {'a': 'x' * 10**6} }}",
    "{{ ('{0}' * 10**5).format('x' * 10**6) }}",
    "{% for i in range(1000) %}{{ 'x' * 10**6 }}{% endfor %}",
    "{% set ns = namespace(x=[]) %}{% for i in range(1000) %}{% set ns.x = ns.x + ['x' * 10**6] %}{% endfor %}",
    "{% set ns = namespace(x=[]) %}{% for i in range(9999) %}{% set ns.x = [ns.x, ('x ' * 10**6).split()] %}{% endfor %}",
]


@pytest.mark.parametrize("source", BOMBS)
def test_what_would_fill_a_machine_is_refused(source: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises((TemplateRuntimeError, TypeError, ValueError)) as refused:
            compile_limited(source, ENVIRONMENT).render()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "too large" in str(refused.value) or "undefined" in str(refused.value)
    assert peak < 30 * MAX_SIZE


@pytest.mark.parametrize(
    "source",
    [
        "{{ 2 ** 10 }} {{ 7 % 3 }} {{ 2 * 3.5 }} {{ [1, 2] * 3 }} {{ 'ab' * 3 }} {{ 'a' + 'b' }} {{ 1 + 2 }}",
        "{{ '%s-%04d-%.2f' % ('a', 7, 1.5) }} {{ '%5s|%%' % 'x' }} {{ '%s %s'|format('a', [1]) }} {{ 2 ** 0.5 }}",
        "{{ '{0} {b:>5} {0!r:.3}'.format('a', b=2) }} {{ '{a}'.format_map({'a': 1}) }}",
        "{{ 'x'|center(9) }}|{{ 'x'.center(9) }}|{{ 'x'.ljust(4) }}|{{ '7'.zfill(3) }}|{{ 'a\tb'.expandtabs(4) }}",
        "{{ 'a\nb'|indent(4, true) }} {{ 'a\nb'|indent('>>') }} {{ 'a b c'|wordwrap(3) }} {{ 'hello you'|truncate(5) }}",
        "{{ [1, 'a', none]|join(', ') }} {{ ', '.join(['a', 'b']) }} {{ {'a': 1}|join('-') }} {{ 'a-b'.split('-') }}",
        "{{ 'aba'|replace('a', 'cc') }} {{ 'aba'.replace('a', 'cc', 1) }} {{ 'aba'.translate({97: 'z'}) }}",
        "{{ range(7)|batch(3, 'x')|list }} {{ range(7)|slice(3)|list }} {{ [[1], [2]]|sum(start=[]) }}",
        "{{ {'a': [1, {'b': none}]}|tojson(indent=2) }} {{ messages|tojson }} {{ messages|pprint }}",
        "{{ 'a' ~ 1 ~ none ~ [1] ~ ('<b>'|safe) }} {{ ('<b>'|safe) ~ '<i>' }} {{ ('a' ~ 'b')|upper }}",
        "{% set x %}a{{ 1 }}{% endset %}{{ x }}{% filter upper %}x{% endfilter %}{{ x is undefined }}",
        "{% macro m(a) %}<{{ a }}>{% endmacro %}{{ m('b') }}",
        "{% macro m() %}[{{ caller(1) }}]{% endmacro %}{% call(a) m() %}{{ a }}{% endcall %}",
        "{% for m in messages %}{{ m.role }}: {{ m['content'] }}{{ loop.cycle('a', 'b') }}{% endfor %}",
        "{{ messages|map(attribute='role')|list }} {{ messages|selectattr('role', 'equalto', 'user')|list|length }}",
        "{% set j = joiner(',') %}{{ j() }}a{{ j() }} {{ dict(a=1)|items|list }} {{ 'a,b'.partition(',') }} {{ none }}",
        "{{ strftime_now('%d %b %Y') }} {{ 3.14159|round(2) }} {{ '7'|int + 1 }} {{ 'AbC'|lower }} {{ ' a '|trim }}",
        "{{ '<a>'|e }} {{ 'a b'|urlencode }} {{ {'a': 'b'}|xmlattr }} {{ 'http://a.de x'|urlize }} {{ 'a'|wordcount }}",
    ],
)
def test_what_honest_templates_do_means_what_it_meant(source: str) -> None:
    given: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": None}]}
    assert compile_limited(source, ENVIRONMENT).render(given) == ENVIRONMENT.from_string(source).render(given)


def test_a_long_conversation_is_no_bomb() -> None:
    messages = [{"role": "user", "content": "x" * 10_000}] * 1_000
    source = "{% for m in messages %}{{ '<' + m.role + '>' ~ m.content|trim }}{% endfor %}"
    assert len(compile_limited(source, ENVIRONMENT).render(messages=messages)) == 10_006_000


def test_the_environment_stays_as_it_was() -> None:
    compile_limited("{{ 'a' * 2 ~ 1 }}", ENVIRONMENT).render()
    assert ENVIRONMENT.finalize is None
    assert "lipsum" in ENVIRONMENT.globals
    assert ENVIRONMENT.from_string("{{ ('x' * 10**7)|length }}{{ 2**100000 > 1 }}").render()
