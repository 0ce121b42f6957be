"""The translations of the pages for people are complete, fit their texts, and are shown."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from babel.messages.mofile import read_mo
from django.contrib.auth import get_user_model
from django.test import Client as Browser
from django.utils import translation
from pytest_django import Settings

from tests.translations.catalogues import LANGUAGES, LOCALE, catalogue, extract, messages

UPDATE = "run .venv/bin/python -m tests.translations.catalogues"
PLACEHOLDER = re.compile(r"%\(\w+\)[sd]|%[sd]|</?\w[^>]*>|https?://\S+|<code>.*?</code>")
"""Placeholders, tags of HTML, and what readers type."""

languages = pytest.mark.parametrize("language", LANGUAGES)


@languages
def test_every_text_is_translated(language: str) -> None:
    missing = [
        message.id
        for message in messages(catalogue(language))
        if not message.string or message.fuzzy
    ]
    assert not missing, f"Translate them in locale/{language}, and {UPDATE}: {missing}"


@languages
def test_translation_has_the_placeholders_and_tags_of_its_text(language: str) -> None:
    different = [
        (message.id, message.string)
        for message in messages(catalogue(language))
        if placeholders(message.id) != placeholders(message.string)
    ]
    assert different == []


def placeholders(text: Any) -> list[str]:
    """What a translation must not change, in any order."""
    return sorted(PLACEHOLDER.findall(str(text)))


def test_missing_placeholder_is_found() -> None:
    assert placeholders("Revoke %(name)s") != placeholders("%(nom)s widerrufen")
    assert placeholders('<a href="%(url)s">token</a>') != placeholders('<a href="%(url)s">Token')


@languages
def test_compiled_catalogue_is_that_of_the_source(language: str) -> None:
    with (LOCALE / language / "LC_MESSAGES" / "django.mo").open("rb") as file:
        compiled = {message.id: message.string for message in messages(read_mo(file))}
    source = {message.id: message.string for message in messages(catalogue(language))}
    assert compiled == source, UPDATE


@pytest.mark.skipif(not shutil.which("xgettext"), reason="needs gettext (Debian: gettext)")
def test_catalogues_have_exactly_the_texts_of_the_pages(tmp_path: Path) -> None:
    updated = extract(tmp_path)
    for language in LANGUAGES:
        expected = {message.id for message in messages(catalogue(language, updated))}
        assert {message.id for message in messages(catalogue(language))} == expected, UPDATE


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("language", "title", "lang"),
    [
        ("de", "Zugriffstoken", "de"),
        ("fr-CA, en;q=0.5", "Jetons d’accès", "fr"),
        ("es", "Tokens de acceso", "es"),
        ("pt-BR", "Tokens de acesso", "pt-br"),
        ("ja", "アクセストークン", "ja"),
        ("xx", "Access tokens", "en-gb"),
    ],
)
def test_page_follows_the_language_of_the_user(
    language: str, title: str, lang: str, settings: Settings
) -> None:
    locale = "django.middleware.locale.LocaleMiddleware"
    if locale not in settings.MIDDLEWARE:
        settings.MIDDLEWARE = [*settings.MIDDLEWARE, locale]
    browser = Browser()
    browser.force_login(get_user_model().objects.create_user("ann"))
    with translation.override(settings.LANGUAGE_CODE):  # The middleware leaves the language on.
        page = browser.get("/tokens/", headers={"Accept-Language": language}).content.decode()
    assert f"<h1>{title}</h1>" in page
    assert f'<html lang="{lang}"' in page
