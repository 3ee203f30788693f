"""REDIRECT: third-party imports that resolve inside the slice."""

import pytest

from infra.slice.errors import UnsupportedShape
from infra.slice.redirect import redirect

TABLE = {"openai": "vllm._slice.openai", "a.b": "x.special", "a": "x.a"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("from openai.types.chat import (\n    A,  # why\n    B,\n)\n", None),
        ("from openai import X\n", "from vllm._slice.openai import X\n"),
        ("def f():\n    import openai.types as t\n", "def f():\n    import vllm._slice.openai.types as t\n"),
        ("from openai_harmony import M\n", "from openai_harmony import M\n"),
        ("from .openai import N\n", "from .openai import N\n"),
        ("from a.b.c import X\nfrom a.d import Y\n", "from x.special.c import X\nfrom x.a.d import Y\n"),
        ("if TYPE_CHECKING:\n    import openai\nelse:\n    x = LazyLoader('x', globals(), 'openai.y')\n",
         'if TYPE_CHECKING:\n    import openai\nelse:\n    x = LazyLoader(\'x\', globals(), "vllm._slice.openai.y")\n'),
    ],
)  # fmt: skip
def test_imports(text: str, expected: str | None) -> None:
    if expected is None:
        expected = text.replace("openai.types", "vllm._slice.openai.types")
    assert redirect("m", text, TABLE) == expected


def test_plain_import_binds_the_same_name() -> None:
    assert redirect("m", "import openai\n", TABLE) == "import vllm._slice.openai as openai\n"


def test_plain_import_of_a_submodule_is_refused() -> None:
    """It would bind `vllm`, not `openai`."""
    with pytest.raises(UnsupportedShape, match=r"import openai\.types"):
        redirect("m", "import openai.types\n", TABLE)
