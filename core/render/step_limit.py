"""A limit on the work of one chat template, for templates that clients send.

jinja2's sandbox keeps a template from touching anything, not from looping for
hours: ``range`` is capped, but ranges nest. Here every round of a loop and
every call of a macro takes one step of a budget. What one operation may build
is bounded as well (``core.render.template_bounds``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from jinja2 import Environment, Template, TemplateRuntimeError, nodes, pass_context
from jinja2.compiler import CodeGenerator, Frame
from jinja2.runtime import Context

from core.render.template_bounds import bound, join_values

_STEP = "derender step"
_JOIN = "derender join"
# vLLM's Rust front end gives request templates as many instructions (VLLM_CHAT_TEMPLATE_FUEL).
MAX_STEPS = 500_000


def _budget(steps: int) -> Callable[[Context, Any], Any]:
    """A filter that takes one of ``steps`` steps and passes its value on."""
    left = steps

    @pass_context  # else jinja2 would apply it to a constant once, when it compiles
    def step(context: Context, value: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise TemplateRuntimeError("The chat template takes too many steps")
        return value

    return step


def _step() -> nodes.Filter:
    return nodes.Filter(nodes.Const(True), _STEP, [], [], None, None)


class _SteppingGenerator(CodeGenerator):
    """jinja2's compiler, with a step at the start of every loop body, loop condition and macro."""

    def visit_Template(self, node: nodes.Template, frame: Frame | None = None) -> None:  # noqa: N802 - jinja2's name
        found: nodes.For | nodes.Macro | nodes.CallBlock
        for found in list(node.find_all((nodes.For, nodes.Macro, nodes.CallBlock))):  # type: ignore[assignment]
            if isinstance(found, nodes.For) and found.test is not None:
                # The rounds that a condition leaves out never reach the body.
                found.test = nodes.And(_step(), found.test)
            found.body.insert(0, nodes.ExprStmt(_step()))
        super().visit_Template(node, frame)

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802 - jinja2's name
        self.write(f"environment.globals[{_JOIN!r}]((")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")


def compile_limited(source: str, environment: Environment, max_steps: int = MAX_STEPS) -> Template:
    """Compile ``source`` for one rendering of at most ``max_steps`` steps.

    ``environment`` gives the filters, globals and rules; it is not changed.

    Raises:
        jinja2.TemplateSyntaxError: the source is not a template.
    """
    limited = environment.overlay()
    limited.code_generator_class = _SteppingGenerator
    bound(limited)
    # The name cannot be written in a template: a filter's name has no space.
    limited.filters = {**limited.filters, _STEP: _budget(max_steps)}
    limited.globals = {**limited.globals, _JOIN: partial(join_values, limited)}
    return limited.from_string(source)
