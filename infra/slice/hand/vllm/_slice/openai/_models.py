"""The base class of openai's response types, as pydantic sees it: unknown fields are kept, building is put off."""

import os
from typing import Any, ClassVar, Literal

import pydantic

__all__ = ["BaseModel"]


def _defer_build() -> bool:
    return os.environ.get("DEFER_PYDANTIC_BUILD", "true").lower() not in {"false", "0", "no", "off"}


class BaseModel(pydantic.BaseModel):
    """What vLLM's types derive from where they extend openai's."""

    model_config: ClassVar[pydantic.ConfigDict] = pydantic.ConfigDict(extra="allow", defer_build=_defer_build())

    def to_dict(
        self,
        *,
        mode: Literal["json", "python"] = "python",
        use_api_names: bool = True,
        exclude_unset: bool = True,
        **options: Any,
    ) -> dict[str, Any]:
        """The fields that were set, under their wire names."""
        return self.model_dump(mode=mode, by_alias=use_api_names, exclude_unset=exclude_unset, **options)

    def to_json(
        self, *, indent: int | None = 2, use_api_names: bool = True, exclude_unset: bool = True, **options: Any
    ) -> str:
        """`to_dict` as JSON text."""
        return self.model_dump_json(indent=indent, by_alias=use_api_names, exclude_unset=exclude_unset, **options)

    def __str__(self) -> str:
        return f"{self.__repr_name__()}({self.__repr_str__(', ')})"


# replaces openai 3.57.0: sha256:859732b2bcd10abb8673adffedf7c5283015dd5e3d198c6da4a5f0001ff84297
