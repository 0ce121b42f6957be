"""Fetches the metadata documents of clients from a server on loopback, whatever host they name."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import urlsplit

import urllib3

from django_mcp.contrib.oauth.documents import ClientMetadataFetcher


class LoopbackMetadataFetcher(ClientMetadataFetcher):
    """Replaces the connection, which has to lead to a public address over TLS."""

    def download(self, client_id: str) -> tuple[dict[str, Any], int]:
        url = os.environ["CLIENT_PAGES"] + urlsplit(client_id).path
        response = urllib3.request("GET", url, preload_content=False, retries=False, timeout=5)
        document: tuple[dict[str, Any], int] = self._read_document(response)
        return document
