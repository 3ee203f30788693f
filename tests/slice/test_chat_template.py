"""The chat template compiler: what published templates rely on, and what a hostile one must not do."""

import json

import pytest
from jinja2 import TemplateError, TemplateSyntaxError
from jinja2.exceptions import SecurityError
from vllm._slice.chat_template import compile_chat_template, render_chat_template

MESSAGES = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "so far "}]


def render(source: str, **options: object) -> str:
    return render_chat_template(source, options.pop("messages", MESSAGES), **options)  # type: ignore[arg-type]


def test_blocks_are_trimmed() -> None:
    assert render("a\n  {% if true %}\n    b\n  {% endif %}\nc") == "a\n    b\nc"


def test_loop_controls_and_generation() -> None:
    source = "{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}"
    source += "{% generation %}[{{ m.content }}]{% endgeneration %}{% break %}{% endfor %}"
    assert render(source) == "[so far ]"


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ("", {}),
        ("indent=2", {"indent": 2}),
        ("separators=(',', ':')", {"separators": (",", ":")}),
        ("sort_keys=true", {"sort_keys": True}),
        ("ensure_ascii=true", {"ensure_ascii": True}),
    ],
)
def test_tojson_is_plain_json(arguments: str, options: dict[str, object]) -> None:
    value = {"z": "é <b>&'", "a": [1, None, True]}
    expected = json.dumps(value, **{"ensure_ascii": False, **options})  # type: ignore[arg-type]
    assert render("{{ value | tojson(" + arguments + ") }}", value=value) == expected


def test_raise_exception_carries_the_words() -> None:
    with pytest.raises(TemplateError, match=r"^roles must alternate$"):
        render("{{ raise_exception('roles must alternate') }}")


def test_strftime_now() -> None:
    assert len(render("{{ strftime_now('%Y-%m-%d') }}")) == 10


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages.append(1) }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.__init__.__globals__ }}",
        "{% for x in range(10000000) %}x{% endfor %}",
    ],
)
def test_sandbox(source: str) -> None:
    with pytest.raises((SecurityError, OverflowError)):
        render(source)


def test_globals_of_functions_are_out_of_reach() -> None:
    assert render("[{{ raise_exception.__globals__ }}]") == "[]"


def test_not_a_template() -> None:
    with pytest.raises(TemplateSyntaxError):
        compile_chat_template("{% if")


def test_compiled_once() -> None:
    assert compile_chat_template("{{ 1 }}") is compile_chat_template("{{ 1 }}")


class TestContinuingTheLastMessage:
    SOURCE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}"
    TRIMMING = "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}</>{% endfor %}"

    def test_ends_inside_it(self) -> None:
        assert render(self.SOURCE, continue_final_message=True) == "<user>hi</><assistant>so far "

    def test_trimming_template(self) -> None:
        assert render(self.TRIMMING, continue_final_message=True) == "<user>hi</><assistant>so far"

    def test_leaves_the_messages_alone(self) -> None:
        messages = [{"role": "user", "content": [{"type": "text", "text": "x"}]}]
        source = "{% for m in messages %}{% for c in m.content %}{{ c.text }}{% endfor %}!{% endfor %}"
        assert render(source, messages=messages, continue_final_message=True) == "x"
        assert messages == [{"role": "user", "content": [{"type": "text", "text": "x"}]}]

    def test_another_key(self) -> None:
        messages = [{"role": "assistant", "content": "c", "reasoning": "r"}]
        source = "{{ messages[0].reasoning }}|{{ messages[0].content }}"
        assert render(source, messages=messages, continue_final_message="reasoning") == "r"

    @pytest.mark.parametrize(
        ("source", "messages", "words"),
        [
            (SOURCE, [{"role": "assistant"}], 'has no "content"'),
            ("{{ messages[0].role }}", MESSAGES, "not an accepted field"),
            ("content {{ messages[0].role }}", MESSAGES, "does not appear"),
            (SOURCE, [{"role": "user", "content": [{"type": "image"}]}], "could not find any text"),
        ],
    )
    def test_errors(self, source: str, messages: list[dict[str, object]], words: str) -> None:
        with pytest.raises(ValueError, match=words):
            render(source, messages=messages, continue_final_message=True)


@pytest.mark.parametrize(("options", "error"), [({"tools": ["x"]}, ValueError), ({"documents": ["x"]}, TypeError)])
def test_wrong_arguments(options: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error):
        render("", **options)
