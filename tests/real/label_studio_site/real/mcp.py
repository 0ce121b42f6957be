"""All that the API reads, as tools."""

from django.urls import get_resolver

from django_mcp.rest import rest_tools

PATHS: list[str] = []
"""What the views of tools were asked for."""


def prepare(request, frame):
    PATHS.append(request.get_full_path())


rest_tools(get_resolver().url_patterns, prepare=prepare)
