"""The models that can be built: for each the package it comes from, its files, and the sums that they must have."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from infra.models import tokenizer_files
from infra.models.package_data import Package

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Model:
    """One model folder.

    `make` gives the bytes of `tokenizer_file`, whose sum must be `sha256`; `template` is the chat template's name in
    templates/, None for a model that has none.  The other files are those in configs/NAME.
    """

    name: str
    package: Package
    make: Callable[[], bytes]
    sha256: str
    template: str | None
    tokenizer_file: str = "tokenizer.json"

    def small_files(self) -> dict[str, bytes]:
        """Every file but the tokenizer's, by name."""
        files = {path.name: path.read_bytes() for path in sorted((_HERE / "configs" / self.name).glob("*.json"))}
        if self.template is not None:
            files["chat_template.jinja"] = (_HERE / "templates" / f"{self.template}.jinja").read_bytes()
        return files


_MODELS = (
    Model(
        "qwen3",
        tokenizer_files.QWEN,
        tokenizer_files.qwen3,
        "db96d1a9e90ffea2d8f0c495d14cdb7975623efed6fe7f659c3a76e1b6017bf8",
        "chatml",
    ),
    Model(
        "qwen3.5",
        tokenizer_files.QWEN,
        tokenizer_files.qwen35,
        "2bd221e7828762867c45d380727f3f80f9f317575a556aca1cdd8b417b453656",
        "qwen_xml",
    ),
    Model(
        "llama3",
        tokenizer_files.LLAMA,
        tokenizer_files.llama3,
        "db3c520f7533269efc2370012cb88d8b030d1b286400e02d1ca0f668d06b4893",
        "llama3",
    ),
    Model(
        "deepseek",
        tokenizer_files.DEEPSEEK,
        tokenizer_files.deepseek,
        "8f9f37ca37fdc4f5fd36d5cf4d3b0e8392edb4e894fd10cc0d70b4957c8633cf",
        "deepseek",
    ),
    Model(
        "mistral-spm",
        tokenizer_files.MISTRAL,
        tokenizer_files.mistral_spm,
        "404f507a9718a9209227e425d40d248f9983def6816fb56441d7567c93247587",
        "mistral",
    ),
    Model(
        "mistral-tekken",
        tokenizer_files.MISTRAL,
        tokenizer_files.mistral_tekken,
        "eccd1665d2e477697c33cb7f0daa6f6dfefc57a0a6bceb66d4be52952f827516",
        template=None,
        tokenizer_file="tekken.json",
    ),
    Model(
        "families",
        tokenizer_files.QWEN,
        tokenizer_files.families,
        "6210451652a2e87821b804dbcc4782c333ef856c125e1a8fe16afc6445c7ec88",
        "chatml",
    ),
    Model(
        "gpt-oss",
        tokenizer_files.HARMONY,
        tokenizer_files.gpt_oss,
        "3f842120590e318db61b932f8731e206653b7d85c038daf786f9f2a15f094eea",
        "harmony",
    ),
)

MODELS: Mapping[str, Model] = MappingProxyType({model.name: model for model in _MODELS})
"""The models by name, which is also the name under which the tests serve them."""
