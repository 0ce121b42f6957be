"""Every input of the corpus is answered without a fault of the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.fuzz import corpus
from tests.fuzz.site import SETTINGS
from tests.fuzz.targets import Input, Site
from tests.spec import spec

if TYPE_CHECKING:
    from pytest_django import Settings

CORPUS = corpus.load()


@spec("cost-23")
@pytest.mark.parametrize(
    "known", [pytest.param(each, id=f"{each['target']} {what}") for what, each in CORPUS]
)
async def test_input_of_the_corpus_causes_no_fault(known: Input, settings: Settings) -> None:
    settings.DJANGO_MCP = SETTINGS

    async with Site() as site:
        await site.play(known)
