"""Fetches the metadata documents of clients from a server on loopback, whatever host they name."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import urlsplit

from django_mcp.contrib.oauth.documents import ClientMetadataFetcher
from django_mcp.outbound import open_url


class LoopbackMetadataFetcher(ClientMetadataFetcher):
    """Replaces the connection, which has to lead to a public address over TLS."""

    def download(self, client_id: str) -> tuple[dict[str, Any], int]:
        url = os.environ["CLIENT_PAGES"] + urlsplit(client_id).path
        with open_url(url, trusted=True) as response:
            document: tuple[dict[str, Any], int] = self._read_document(response)
        return document
