"""The services that the tests share, on one worker: every configuration is loaded about once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reports.service import Services


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("reports"))


@pytest.fixture(scope="session")
def services(models_dir: Path) -> Iterator[Services]:
    services = Services(models_dir)
    yield services
    services.close()
