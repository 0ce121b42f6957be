"""The example site under a strict content security policy."""

from collections.abc import Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from example_site.settings import *  # noqa: F403 - all of them

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; media-src data:; frame-src 'self'; form-action 'self'; base-uri 'none'"
)


def policy_middleware(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Send the policy with each page that has none of its own."""

    def respond(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        response.headers.setdefault("Content-Security-Policy", POLICY)
        return response

    return respond


MIDDLEWARE = [*MIDDLEWARE, "tests.browser.strict_settings.policy_middleware"]  # noqa: F405
INSTALLED_APPS = [*INSTALLED_APPS, "tests.try_it"]  # noqa: F405
