"""Extensions: additions of an app, or a package, to the protocol, to components or to calls.

The configuration of an app returns its extension from ``mcp_extension``. It is called before the
``mcp`` modules of apps are imported, so that components may have its options.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from django.apps import AppConfig, apps
from django.core.exceptions import ImproperlyConfigured

from django_mcp.core.components.base import Component, ConfigurationError, Option
from django_mcp.core.dispatch.methods import METHODS
from django_mcp.core.dispatch.pagination import page as list_components
from django_mcp.core.dispatch.plan import Plan as CallPlan
from django_mcp.core.dispatch.visibility import find as find_component
from django_mcp.core.protocol.texts import similar
from django_mcp.core.server.extensions import (
    INSTALLED,
    Extension,
    Kind,
    ListenFilter,
    Method,
    Serve,
    Step,
    Stream,
)
from django_mcp.core.server.server import created

__all__ = [
    "CallPlan",
    "Component",
    "Extension",
    "Kind",
    "ListenFilter",
    "Method",
    "Option",
    "Serve",
    "Step",
    "Stream",
    "find_component",
    "installed",
    "list_components",
]

ATTRIBUTE = "mcp_extension"


def install(extensions: Iterable[Extension]) -> None:
    """Use these extensions on all servers, and no others."""
    extensions = tuple(extensions)
    for extension in extensions:
        for method in extension.methods:
            if method.name in METHODS:
                raise ConfigurationError(
                    f"{extension.name} has the method {method.name!r}, which the protocol has"
                )
    INSTALLED.replace(extensions)
    for server in created:
        server.extend()


@contextmanager
def installed(*extensions: Extension) -> Iterator[None]:
    """Use further extensions in the block: for tests of one that is in no app."""
    before = INSTALLED.all
    install([*before, *extensions])
    try:
        yield
    finally:
        install(before)


def of_apps() -> list[Extension]:
    """Return the extensions of the apps, in the order of INSTALLED_APPS."""
    extensions = []
    for config in apps.get_app_configs():
        _refuse_misspelt(config)
        returned = getattr(config, ATTRIBUTE, None)
        extension = returned() if callable(returned) else returned
        if extension is None:
            continue
        if not isinstance(extension, Extension):
            raise ImproperlyConfigured(
                f"{ATTRIBUTE} of {type(config).__qualname__} is {extension!r}: return an Extension"
            )
        extensions.append(extension)
    return extensions


def _refuse_misspelt(config: AppConfig) -> None:
    for name in vars(type(config)):
        if name != ATTRIBUTE and similar(name, [ATTRIBUTE], 0.85):
            raise ImproperlyConfigured(
                f"{type(config).__qualname__} has {name!r}: did you mean {ATTRIBUTE!r}?"
            )
