"""xgrammar without its matcher: structural tags in Python, grammars from the compiled library on first use.

Upstream's package init imports the matcher, and that imports torch. The Python modules beside this one are xgrammar's
own. The compiled library and its runtime (tvm_ffi) are read from the installed `xgrammar` distribution; without them
everything but `Grammar` works.
"""

from typing import Any

from . import structural_tag
from .structural_tag import StructuralTag, StructuralTagItem

__all__ = [
    "Grammar",
    "StructuralTag",
    "StructuralTagItem",
    "get_builtin_structural_tag",
    "get_model_structural_tag",
    "normalize_tool_choice",
    "register_model_structural_tag",
    "structural_tag",
]


def __getattr__(name: str) -> Any:
    if name == "Grammar":
        # The library first: the classes that wrap its objects look them up when they are defined.
        from . import load_binding  # noqa: F401, I001
        from . import exception  # noqa: F401
        from .grammar import Grammar

        globals()[name] = Grammar
        return Grammar
    if name in __all__:
        from . import builtin_structural_tag

        value = getattr(builtin_structural_tag, name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# replaces xgrammar 0.2.8: sha256:f9bbc4855891b442a676d6dcaa4e7923f7126fe40ad0e0290bcdbd3767dc162b
