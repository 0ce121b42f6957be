"""All that the API reads, as tools."""

from asked import prepare
from django.urls import get_resolver

from django_mcp.rest import rest_tools

rest_tools(get_resolver().url_patterns, prepare=prepare)
