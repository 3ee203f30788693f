"""Model folders for tests, the demo and benchmarks, made from data inside registry packages.

    python -m infra.models OUT [--only NAME ...] [--check]

Nothing is fetched and no weights are involved: a folder holds a tokenizer, configurations and a chat template, which
is all that rendering and derendering need.  The chat templates are the project's own, short ones in each family's
format.  The bytes of a folder are the same everywhere; the recorded answers in the tests depend on that.
"""

from infra.models.catalogue import MODELS, Model
from infra.models.folder import UnknownModelError, WrongSumError, build, faults
from infra.models.package_data import MissingPackageError

__all__ = ["MODELS", "MissingPackageError", "Model", "UnknownModelError", "WrongSumError", "build", "faults"]
