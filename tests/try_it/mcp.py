"""The server of the tests in a browser, whose settings name this folder as an app."""

from django_mcp import Server
from django_mcp.auth.anonymous import AnonymousAuthentication
from tests.try_it.workshop import add_components

workshop = Server("workshop", authenticators=[AnonymousAuthentication()], path="workshop")
add_components(workshop)
