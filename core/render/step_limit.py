"""A limit on the work of one chat template, for templates that clients send.

jinja2's sandbox keeps a template from touching anything, not from looping for
hours: ``range`` is capped, but ranges nest. Here every round of a loop and
every call of a macro takes one step of a budget. Memory is not limited: an
operator who trusts request templates trusts clients with that.
"""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, Template, TemplateRuntimeError, nodes
from jinja2.compiler import CodeGenerator, Frame

_STEP = "derender step"
# vLLM's Rust front end gives request templates as many instructions (VLLM_CHAT_TEMPLATE_FUEL).
MAX_STEPS = 500_000


class _Budget:
    """Steps that one rendering may still take; the filter that takes one."""

    def __init__(self, steps: int) -> None:
        self._left = steps

    def __call__(self, value: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            raise TemplateRuntimeError("The chat template takes too many steps")
        return value


def _step() -> nodes.Filter:
    return nodes.Filter(nodes.Const(True), _STEP, [], [], None, None)


class _SteppingGenerator(CodeGenerator):
    """jinja2's compiler, with a step at the start of every loop body, loop condition and macro."""

    def visit_For(self, node: nodes.For, frame: Frame) -> None:  # noqa: N802 - jinja2's name
        if node.test is not None:
            # The rounds that a condition leaves out never reach the body.
            node.test = nodes.And(_step(), node.test)
        node.body.insert(0, nodes.ExprStmt(_step()))
        super().visit_For(node, frame)

    def visit_Macro(self, node: nodes.Macro, frame: Frame) -> None:  # noqa: N802 - jinja2's name
        node.body.insert(0, nodes.ExprStmt(_step()))
        super().visit_Macro(node, frame)


def compile_limited(source: str, environment: Environment, max_steps: int = MAX_STEPS) -> Template:
    """Compile ``source`` for one rendering of at most ``max_steps`` steps.

    ``environment`` gives the filters, globals and rules; it is not changed.

    Raises:
        jinja2.TemplateSyntaxError: the source is not a template.
    """
    limited = environment.overlay()
    limited.code_generator_class = _SteppingGenerator
    # The name cannot be written in a template: a filter's name has no space.
    limited.filters = {**environment.filters, _STEP: _Budget(max_steps)}
    return limited.from_string(source)
