"""Descriptions that are derived for tools without one."""

from __future__ import annotations

import pytest
from django.db import models
from django.test.utils import isolate_apps

from django_mcp.rest.descriptions import plural_of


@pytest.mark.parametrize(
    ("name", "declared", "plural"),
    [
        ("property", None, "properties"),
        ("address", None, "addresses"),
        ("box", None, "boxes"),
        ("survey", None, "surveys"),
        ("ticket", None, "tickets"),
        ("person", "people", "people"),
    ],
)
def test_description_has_the_plural_that_english_has(
    name: str, declared: str | None, plural: str
) -> None:
    options = {"app_label": "rest", "verbose_name": name}
    if declared is not None:
        options["verbose_name_plural"] = declared
    with isolate_apps("tests.rest"):
        meta = type("Meta", (), options)
        model = type("Sample", (models.Model,), {"Meta": meta, "__module__": __name__})

    assert plural_of(model) == plural
