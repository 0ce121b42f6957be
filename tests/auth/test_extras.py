"""Authenticators that need an extra say so where it is missing."""

from __future__ import annotations

import sys
from importlib.util import find_spec, module_from_spec

import pytest
from django.core.exceptions import ImproperlyConfigured


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [
        ("django_mcp.auth.issuers.verification", "jwt", "jwt"),
        ("django_mcp.auth.issuers.verification", "cryptography", "jwt"),
        ("django_mcp.auth.rest_framework", "rest_framework.request", "rest"),
        ("django_mcp.rest", "rest_framework", "rest"),
    ],
)
def test_missing_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, module: str, package: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    spec = find_spec(module)
    assert spec is not None
    assert spec.loader is not None

    with pytest.raises(ImproperlyConfigured, match=rf"django-mcp-channels\[{extra}\]"):
        spec.loader.exec_module(module_from_spec(spec))
