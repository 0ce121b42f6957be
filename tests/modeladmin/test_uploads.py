"""Files of hosts in the forms, the inlines and the pages of the admin."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from django import forms
from django.contrib.auth.models import User
from django.core.files.uploadedfile import TemporaryUploadedFile
from django.db import connection
from django.template import engines
from django.template.response import TemplateResponse

from django_mcp.runtime.django_types.uploads import Uploads
from example_site.helpdesk.models import Comment, Customer, Ticket
from tests.modeladmin import backstage
from tests.modeladmin.conftest import Ask
from tests.modeladmin.reading import TICKET, read
from tests.outbound.conftest import NAME, Host, host
from tests.uploads.files import LARGE, inline, of_host, serve

if TYPE_CHECKING:
    from django.core.files.uploadedfile import UploadedFile
    from pytest_django import Settings

__all__ = ["host"]

UPLOADED: list[Any] = []


class WithFile(forms.ModelForm):  # type: ignore[type-arg]
    attachment = forms.FileField(required=False, help_text="A scan.")

    def clean_attachment(self) -> Any:
        file = self.cleaned_data["attachment"]
        if file:
            UPLOADED.append((file, len(file.read())))
        return file


class ScanForm(forms.Form):
    """A page of an action that asks for a file."""

    scan = forms.FileField()


@pytest.fixture(autouse=True)
def _forms(monkeypatch: pytest.MonkeyPatch) -> None:
    UPLOADED.clear()
    fields = [*backstage.TicketsOfCaller.fields, "attachment"]
    monkeypatch.setattr(backstage.TicketsOfCaller, "form", WithFile)
    monkeypatch.setattr(backstage.TicketsOfCaller, "fields", fields)
    monkeypatch.setattr(backstage.CommentInline, "form", WithFile)
    monkeypatch.setattr(
        backstage.CommentInline, "fields", [*backstage.CommentInline.fields, "attachment"]
    )


@pytest.fixture
def chat(host: Host, settings: Settings) -> Host:
    """The host of a chat, of which the site accepts files."""
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "UPLOAD_HOSTS": [NAME]}
    return host


def new(customer: Customer, **values: Any) -> dict[str, Any]:
    return {"subject": "Screen", "description": "Dark", "customer": customer.pk, **values}


def test_file_of_a_host_is_that_of_the_form(
    ask: Ask, root: User, acme: Customer, chat: Host
) -> None:
    serve(chat, LARGE)
    files = [of_host(chat, file_name="a.csv")]

    result = ask(root, "add", model=TICKET, values=new(acme, attachment=0), files=files)

    result.assert_ok()
    ((file, size),) = UPLOADED
    assert isinstance(file, TemporaryUploadedFile)
    assert (file.name, size, file.closed) == ("a.csv", len(LARGE), True)


def test_files_belong_to_their_positions(ask: Ask, root: User, ticket: Ticket) -> None:
    arguments = {
        "values": {"attachment": 1},
        "inlines": {"comments": [{"text": "with a file", "attachment": 0}]},
        "files": [inline(b"a", "a.txt"), inline(b"bb", "b.txt")],
    }

    ask(root, "change", model=TICKET, pk=ticket.pk, **arguments).assert_ok()

    assert {(file.name, size) for file, size in UPLOADED} == {("a.txt", 1), ("b.txt", 2)}
    assert Comment.objects.filter(ticket=ticket, text="with a file").exists()


@pytest.mark.django_db(transaction=True)
def test_host_sends_the_file_before_the_object_is_locked(
    ask: Ask, root: User, ticket: Ticket, chat: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_transaction: list[bool] = []
    keep = Uploads._kept

    def noted(self: Uploads, file: UploadedFile[Any]) -> UploadedFile[Any]:
        in_transaction.append(connection.in_atomic_block)
        return keep(self, file)

    monkeypatch.setattr(Uploads, "_kept", noted)
    serve(chat, b"a")

    values = {"attachment": 0}
    ask(root, "change", model=TICKET, pk=ticket.pk, values=values, files=[of_host(chat)])

    assert in_transaction == [False]


@pytest.mark.parametrize("position", [1, -1, True, "0", {"download_url": "data:;base64,"}])
def test_position_without_a_file_is_an_error(
    ask: Ask, root: User, acme: Customer, position: Any
) -> None:
    result = ask(
        root,
        "add",
        model=TICKET,
        values=new(acme, attachment=position),
        files=[inline(b"a", "a.txt")],
    )

    result.assert_error("attachment: give the position of a file in files, from 0.")
    assert UPLOADED == []


def test_refused_file_changes_nothing(ask: Ask, root: User, acme: Customer, host: Host) -> None:
    result = ask(root, "add", model=TICKET, values=new(acme, attachment=0), files=[of_host(host)])

    assert "accepts no files from" in result.text
    assert not Ticket.objects.exists()


def test_form_describes_how_a_file_is_given(ask: Ask, root: User) -> None:
    described = read(ask(root, "describe_model", model=TICKET))

    field = next(it for name, it in described["form"]["fields"].items() if name == "attachment")
    assert field == {
        "type": "integer",
        "minimum": 0,
        "description": "A scan. The position of the file in files",
    }


def test_page_of_an_action_takes_a_file(
    ask: Ask, root: User, ticket: Ticket, monkeypatch: pytest.MonkeyPatch
) -> None:
    def attach(self: Any, request: Any, queryset: Any) -> Any:
        form = ScanForm(request.POST or None, request.FILES or None)
        if "apply" in request.POST and form.is_valid():
            UPLOADED.append(form.cleaned_data["scan"].read())
            return None
        template: Any = engines["django"].from_string(backstage.PAGE)
        return TemplateResponse(request, template, {"form": form, "queryset": queryset})

    attach.short_description = "Attach"  # type: ignore[attr-defined]
    monkeypatch.setattr(backstage.TicketsOfCaller, "move", attach)
    call: dict[str, Any] = {"model": TICKET, "action": "move", "pks": [ticket.pk]}

    call["confirm"] = read(ask(root, "run_action", **call))["confirm"]
    page = read(ask(root, "run_action", **call))
    assert page["page"]["fields"]["scan"]["description"] == "The position of the file in files"
    call["confirm"] = page["confirm"]
    done = ask(root, "run_action", **call, form={"scan": 0}, files=[inline(b"PDF", "a.pdf")])

    assert json.loads(done.text)["done"]
    assert UPLOADED == [b"PDF"]
