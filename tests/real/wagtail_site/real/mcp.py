"""The whole API as tools, and what they send."""

from asked import prepare
from wagtail.api.v3.urls import api

from django_mcp.openapi import openapi_tools

openapi_tools(api, read_only=False, answer="full", prepare=prepare)
