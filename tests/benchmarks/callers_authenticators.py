"""Authenticators of the site of ``callers``: tokens of REST framework, and signed ones."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from django_mcp.auth.issuers.verification import read_keys
from django_mcp.auth.jwt import JWTAuthentication
from django_mcp.auth.rest_framework import RESTFrameworkAuthentication
from tests.benchmarks.callers_site import ISSUER


class RestTokens(RESTFrameworkAuthentication):
    authentication_classes = ("rest_framework.authentication.TokenAuthentication",)


class SignedTokens(JWTAuthentication):
    """Tokens of an issuer whose key is in the environment."""

    issuer = ISSUER

    def _load_keys(self) -> Sequence[Any]:
        return read_keys({"keys": [json.loads(os.environ["CALLERS_KEY"])]}, ISSUER)
