"""A server whose tools send their user to a page, the pages, and a browser."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC
from typing import Any
from urllib.parse import urlsplit

from asgiref.sync import sync_to_async
from django import forms
from django.contrib.auth.models import User
from django.http.response import HttpResponseBase
from django.test import Client as Browser
from django.urls import include, path
from django.utils import timezone
from django.utils.timezone import get_fixed_timezone
from django.views.generic import TemplateView

from django_mcp import Frame, Server, ToolError
from django_mcp.contrib.url_elicitation.pages import aelicit_page, elicit_page
from django_mcp.contrib.url_elicitation.views import ElicitationMixin
from django_mcp.testing import accept
from example_site.urls import urlpatterns as site_patterns

MESSAGE = "Enter the password of your bank."


class BankForm(forms.Form):
    """A form with a secret, and with a field whose value has a type of its own."""

    password = forms.CharField(widget=forms.PasswordInput, min_length=4)
    until = forms.DateField()
    accounts = forms.MultipleChoiceField(choices=[("a", "A"), ("b", "B")])

    def clean_accounts(self) -> list[str]:
        """Query the database, as forms do."""
        User.objects.filter(username="nobody").exists()
        accounts: list[str] = self.cleaned_data["accounts"]
        return accounts


class FileForm(forms.Form):
    title = forms.CharField()
    scan = forms.FileField()
    photo = forms.ImageField(required=False)


class ReadFileForm(forms.Form):
    """A form that reads its file to check it."""

    scan = forms.FileField()

    def clean_scan(self) -> Any:
        scan = self.cleaned_data["scan"]
        if not scan.read().startswith(b"%PDF"):
            raise forms.ValidationError("This is no PDF.")
        return scan


class MeetingForm(forms.Form):
    """A form whose dates are read in a language, and whose times in a time zone."""

    day = forms.DateField(localize=True)
    at = forms.DateTimeField()


class RangeWidget(forms.MultiWidget):
    def __init__(self) -> None:
        day = forms.SelectDateWidget(years=range(2030, 2032))
        super().__init__({"from": day, "at": forms.SplitDateTimeWidget, "scan": forms.FileInput})

    def decompress(self, value: Any) -> list[Any]:
        return [None, None, None]


class RangeField(forms.Field):
    widget = RangeWidget


class RangeForm(forms.Form):
    """A form whose widget has parts with parts of their own."""

    range = RangeField()


class ConnectView(ElicitationMixin, TemplateView):
    """A view of the author, without a form class."""

    template_name = "django_mcp_elicitation/form.html"

    def post(self, request: Any, *args: Any, **kwargs: Any) -> HttpResponseBase:
        return self.complete({"account": 3})


urlpatterns = [
    *site_patterns,
    path("connect/<str:token>/", ConnectView.as_view(), name="connect"),
    path("own/", include("django_mcp.contrib.url_elicitation.urls", namespace="own")),
]

PAID_BY_BANK = "Paid on 24 December from a+b"
VALID = {"password": "tea pot", "until": "2026-12-24", "accounts": ["a", "b"]}


def bank() -> Server:
    server = Server("bank", title="The bank")

    @server.tool(requests_input=True)
    def pay(frame: Frame) -> str:
        answer = elicit_page(frame, MESSAGE, BankForm)
        if not answer.accepted:
            return f"Not paid: {answer.action}"
        content = answer.content
        return f"Paid on {content['until']:%d %B} from {'+'.join(content['accounts'])}"

    @server.tool(requests_input=True)
    async def apay(frame: Frame) -> str:
        answer = await aelicit_page(frame, MESSAGE, BankForm)
        if not answer.accepted:
            return f"Not paid: {answer.action}"
        content = answer.content
        return f"Paid on {content['until']:%d %B} from {'+'.join(content['accounts'])}"

    @server.tool(requests_input=True)
    async def connect(frame: Frame, timeout: float = 20) -> str:
        try:
            answer = await aelicit_page(frame, "Connect your bank.", "connect", timeout=timeout)
        except TimeoutError as error:
            raise ToolError("Too late") from error
        return f"{answer.action}: {answer.content}"

    @server.tool(requests_input=True)
    async def connect_once(frame: Frame) -> str:
        if await User.objects.filter(username="nobody").aexists():
            return "connected before"
        answer: Any = await aelicit_page(frame, "Connect your bank.", "connect")
        return f"{answer.action}"

    @server.tool(requests_input=True)
    async def both(frame: Frame) -> str:
        first = await aelicit_page(frame, "The same", "connect", key="first")
        second = await aelicit_page(frame, "The same", "connect", key="second")
        return f"{first.content} {second.action}"

    @server.tool(requests_input=True)
    async def scan(frame: Frame) -> str:
        answer: Any = await aelicit_page(frame, "Scan it.", FileForm)
        file = answer.content["scan"]
        content = file.read()
        return f"{answer.content['title']}: {file.name}, {file.content_type}, {len(content)}"

    @server.tool(requests_input=True)
    async def scan_pdf(frame: Frame) -> str:
        answer: Any = await aelicit_page(frame, "Scan it.", ReadFileForm)
        return f"{answer.content['scan'].size}"

    @server.tool(requests_input=True)
    async def meet(frame: Frame) -> str:
        answer: Any = await aelicit_page(frame, "Choose the time.", MeetingForm)
        content = answer.content
        return f"{content['day']:%d %B} {content['at'].astimezone(UTC):%d %B %H:%M}"

    @server.tool(requests_input=True)
    async def reserve(frame: Frame) -> str:
        answer: Any = await aelicit_page(frame, "Choose the days.", RangeForm)
        day, at, scan = answer.content["range"]
        return f"{day} {at} {scan.name}"

    return server


class TimeZoneMiddleware:
    """Activates the time zone that a test says, for a request of a browser."""

    def __init__(self, get_response: Callable[[Any], Any]) -> None:
        self._get_response = get_response

    def __call__(self, request: Any) -> Any:
        offset = request.headers.get("time-zone")
        if offset is None:
            return self._get_response(request)
        zone = offset if "/" in offset else get_fixed_timezone(int(offset))
        with timezone.override(zone):
            return self._get_response(request)


def browser_of(user: User | None, **options: Any) -> Browser:
    browser = Browser(**options)
    if user is not None:
        browser.force_login(user)
    return browser


def path_of(request: dict[str, Any]) -> str:
    return str(urlsplit(request["url"]).path)


def visiting(
    user: User | None, data: dict[str, Any], opened: list[Any], headers: Any = None
) -> Callable[[dict[str, Any]], Awaitable[Any]]:
    """Return a client's response: its user opens the page, sends ``data``, and agrees."""

    def visit(url: str) -> None:
        browser = browser_of(user)
        opened.extend((browser.get(url), browser.post(url, data, headers=headers)))

    async def answer(request: dict[str, Any]) -> Any:
        await sync_to_async(visit)(path_of(request))
        return accept()

    return answer
