"""A browser for all tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from selenium import webdriver

from tests.browser.chromium import chromium


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    with chromium(tmp_path_factory.mktemp("browser") / "profile") as driver:
        yield driver
