"""The snippets of the pages about results, arguments, exceptions and decorators."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from datetime import date
from io import BytesIO
from typing import TYPE_CHECKING, Any

import pytest
from django.core.files.base import ContentFile
from django.db import connection
from PIL import Image

from tests.docs.examples import MEMORY, PROJECT
from tests.docs.snippets import SNIPPETS, Snippet, run
from tests.installed_apps import installed

if TYPE_CHECKING:
    from pytest_django import DjangoDbBlocker, Settings

EVERY = [
    pytest.param(snippet, id=f"{group}-{number}")
    for group, snippets in SNIPPETS.items()
    for number, snippet in enumerate(snippets)
]


@pytest.fixture(scope="module")
def library(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """The tables of the app ``library``."""
    sys.path.insert(0, str(PROJECT))
    with installed("library"), django_db_blocker.unblock():
        models: Any = importlib.import_module("library.models")
        with connection.schema_editor() as editor:
            editor.create_model(models.Author)
            editor.create_model(models.Book)
        yield
        with connection.schema_editor() as editor:
            editor.delete_model(models.Book)
            editor.delete_model(models.Author)
    sys.path.remove(str(PROJECT))


@pytest.fixture
def books(library: None, db: None, settings: Settings) -> Any:
    """Two books, the first with its text and its cover."""
    settings.DJANGO_MCP = {"STORES": MEMORY, "BASE_URL": "https://example.org"}
    settings.MEDIA_URL = "/media/"
    settings.STORAGES = {
        **settings.STORAGES,
        "default": {"BACKEND": "django.core.files.storage.InMemoryStorage"},
    }
    folder = PROJECT / "library" / "templates"
    settings.TEMPLATES = [{**settings.TEMPLATES[0], "DIRS": [folder]}]
    models: Any = importlib.import_module("library.models")
    cover = BytesIO()
    Image.new("RGB", (2, 2)).save(cover, "PNG")
    author = models.Author.objects.create(name="Frank Herbert")
    dune = models.Book(pk=1, title="Dune", price="9.90", published=date(1965, 8, 1), author=author)
    dune.genre = models.Genre.SCIENCE
    dune.text.save("dune.txt", ContentFile(b"A beginning"), save=False)
    dune.cover.save("dune.png", ContentFile(cover.getvalue()), save=False)
    dune.save()
    return models.Book.objects.create(
        pk=2, title="Emma", price="5.00", published=date(1815, 1, 1), author=author, is_public=False
    )


@pytest.mark.parametrize("snippet", EVERY)
def test_snippet_has_the_outcome_of_the_page(snippet: Snippet, books: Any) -> None:
    assert run(snippet) == snippet.outcome


def test_at_least_sixty_snippets_are_tested() -> None:
    assert len(EVERY) >= 60
