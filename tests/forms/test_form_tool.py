"""Django forms as tools: arguments, cleaning, errors, and what happens to a valid form."""

from __future__ import annotations

import json
import re
from datetime import datetime
from functools import partial
from typing import Any, ClassVar

import pytest
from asgiref.sync import async_to_sync
from django import forms
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import models
from django.utils import timezone

from django_mcp import ConfigurationError, Frame, Server, ToolError, registry
from django_mcp.forms import form_tool
from django_mcp.forms.fields import field_argument
from django_mcp.runtime.django_types.field_types import MAX_CHOICES, key_schema
from django_mcp.runtime.django_types.uploads import MAX_INLINE_BYTES
from django_mcp.testing import SyncClient
from django_mcp.ui import form_view
from example_site.helpdesk.models import Comment, Customer, Ticket
from tests.forms.every_field import EveryField
from tests.spec import spec
from tests.uploads.files import inline


class TicketForm(forms.ModelForm):  # type: ignore[type-arg]
    """Open a ticket."""

    class Meta:
        model = Ticket
        fields = ("customer", "subject", "description", "priority")

    def clean_subject(self) -> str:
        subject: str = self.cleaned_data["subject"]
        if "spam" in subject:
            raise ValidationError("This looks like spam.")
        return subject

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or self.cleaned_data
        if data.get("priority") == "urgent" and len(data.get("description", "")) < 10:
            raise ValidationError("Describe why it is urgent.")
        return data


class CustomForm(forms.Form):
    """A form for what each user may choose."""

    customer = forms.ModelChoiceField(Customer.objects.none())

    def __init__(self, *args: Any, names: list[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field: Any = self.fields["customer"]
        field.queryset = Customer.objects.filter(name__in=names)


@pytest.fixture
def server() -> Server:
    return Server("forms", authenticators=["django_mcp.auth.anonymous.AnonymousAuthentication"])


def call(server: Server, tool: str, arguments: dict[str, Any], **options: Any) -> Any:
    with SyncClient(server, **options) as client:
        return client.call_tool(tool, arguments)


def tool_schema(server: Server, name: str) -> dict[str, Any]:
    component: Any = server.components.find("tool", name)
    schema: dict[str, Any] = component.input_schema
    return schema


def echo(form: Any, frame: Frame) -> Any:
    return {name: str(value) for name, value in form.cleaned_data.items()}


@pytest.fixture
def customer(db: None) -> Customer:
    return Customer.objects.create(name="Acme", email="a@example.com", city="Rome")


def test_model_form_is_saved_and_its_object_returned(server: Server, customer: Customer) -> None:
    form_tool(TicketForm, server=server, destructive=False)

    arguments = {"customer": customer.pk, "subject": "Printer", "description": "Broken"}
    result = call(server, "ticket", arguments)

    ticket = Ticket.objects.get()
    assert result["structuredContent"] == {"pk": ticket.pk, "text": str(ticket)}
    assert (ticket.subject, ticket.customer, ticket.priority) == ("Printer", customer, "normal")


def test_schema_has_keys_choices_lengths_and_docstring(server: Server) -> None:
    form_tool(TicketForm, server=server)

    component: Any = server.components.find("tool", "ticket")
    schema = component.input_schema
    assert component.description == "Open a ticket."
    assert component.source.startswith(f"{__name__}:")
    assert schema["properties"]["customer"] == {"title": "Customer", "type": "integer"}
    assert schema["properties"]["subject"]["maxLength"] == 200
    assert schema["properties"]["priority"]["enum"] == ["low", "normal", "high", "urgent"]
    assert schema["properties"]["priority"]["default"] == "normal"
    assert schema["required"] == ["customer", "subject", "description"]
    assert schema["additionalProperties"] is False


def test_options_of_tools_are_options_of_forms(server: Server) -> None:
    form_tool(TicketForm, server=server, group="desk", destructive=False)

    component: Any = server.components.find("tool", "ticket")
    assert component.group == "desk"
    assert component.annotations == {"destructiveHint": False}


def test_errors_name_their_fields(server: Server, customer: Customer) -> None:
    form_tool(TicketForm, server=server)

    arguments = {"customer": 99, "subject": "spam", "description": "x", "priority": "urgent"}
    result = call(server, "ticket", arguments)

    assert result["isError"]
    assert result.text.splitlines() == [
        "The form is not valid.",
        "customer: Select a valid choice. That choice is not one of the available choices.",
        "subject: This looks like spam.",
        "Describe why it is urgent.",
    ]
    assert not Ticket.objects.exists()


def test_failure_after_saving_is_rolled_back(server: Server, customer: Customer) -> None:
    def save_and_fail(form: Any, frame: Frame) -> None:
        form.save()
        raise ToolError("Not today")

    form_tool(TicketForm, server=server, on_valid=save_and_fail)
    arguments = {"customer": customer.pk, "subject": "Printer", "description": "Broken"}

    assert call(server, "ticket", arguments).text == "Not today"
    assert not Ticket.objects.exists()


def test_instance_keeps_what_is_left_out(server: Server, customer: Customer) -> None:
    fields = {"customer": customer, "description": "Broken", "priority": "high"}
    ticket = Ticket.objects.create(subject="Printer", **fields)
    form_tool(TicketForm, server=server, form_kwargs=lambda frame: {"instance": ticket})

    assert tool_schema(server, "ticket")["required"] == []
    assert "default" not in tool_schema(server, "ticket")["properties"]["priority"]
    call(server, "ticket", {"subject": "Scanner"})

    ticket.refresh_from_db()
    kept = (ticket.subject, ticket.customer, ticket.description, ticket.priority)
    assert kept == ("Scanner", customer, "Broken", "high")


@spec("views-09")
def test_form_kwargs_restrict_choices_by_user(server: Server, customer: Customer) -> None:
    def kwargs(frame: Frame) -> dict[str, Any]:
        return {"names": ["Acme"] if frame.user.username == "ada" else []}

    form_tool(CustomForm, server=server, on_valid=echo, form_kwargs=kwargs)
    arguments = {"customer": customer.pk}
    ada, bob = User.objects.create(username="ada"), User.objects.create(username="bob")

    allowed = call(server, "custom", arguments, user=ada)
    denied = call(server, "custom", arguments, user=bob)

    assert allowed["structuredContent"] == {"customer": "Acme"}
    assert denied["isError"]
    assert "Acme" not in denied.text


@pytest.mark.parametrize(
    ("given", "cleaned"),
    [
        ({"text": "abc", "count": 3}, {"text": "abc", "count": "3", "is_new": "True"}),
        ({"is_new": False}, {"is_new": "False"}),
        ({"maybe": None}, {"maybe": "None"}),
        ({"maybe": False}, {"maybe": "False"}),
        ({"price": 1.5}, {"price": "1.5"}),
        ({"on": "2026-11-22"}, {"on": "2026-11-22"}),
        (
            {"at": "2026-11-22T10:30:00"},
            {"at": str(datetime.fromisoformat("2026-11-22T10:30+00:00"))},
        ),
        ({"takes": "P1DT2H"}, {"takes": "1 day, 2:00:00"}),
        ({"size": "l"}, {"size": "l"}),
        ({"computed": "x"}, {"computed": "x"}),
        ({"tags": ["a", "b"]}, {"tags": "['a', 'b']"}),
        ({"extra": {"a": [1]}}, {"extra": "{'a': [1]}"}),
        ({"odd": "abc"}, {"odd": "abc"}),
    ],
)
def test_arguments_are_cleaned_as_browser_data(
    db: None, server: Server, given: dict[str, Any], cleaned: dict[str, str]
) -> None:
    form_tool(EveryField, server=server, on_valid=echo)

    result = call(server, "every_field", {"text": "abc", "count": 3, **given})

    assert not result.get("isError"), result
    found = result["structuredContent"]
    assert {name: found[name] for name in cleaned} == cleaned
    assert found["fixed"] == "fixed"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"text": "a"}, "text"),
        ({"count": 10}, "count"),
        ({"code": "A"}, "code"),
        ({"odd": "xyz"}, "odd: Enter a valid value."),
        ({"size": "m"}, "size"),
        ({"computed": "y"}, "computed: Select a valid choice"),
        ({"at": "yesterday"}, "'yesterday': Enter a valid date/time."),
        ({"fixed": "changed"}, "fixed"),
        ({"other": 1}, "other"),
        ({"file": {**inline(b""), "file_name": ".."}}, "file.file_name is no name of a file"),
    ],
)
def test_invalid_arguments_are_explained(
    db: None, server: Server, given: dict[str, Any], message: str
) -> None:
    form_tool(EveryField, server=server, on_valid=echo)

    result = call(server, "every_field", {"text": "abc", "count": 3, **given})

    assert result["isError"]
    assert message in result.text


@spec("views-10")
def test_file_is_uploaded_without_its_directory(db: None, server: Server) -> None:
    def read(form: Any, frame: Frame) -> Any:
        file = form.cleaned_data["file"]
        return {"name": file.name, "text": file.read().decode(), "type": file.content_type}

    form_tool(EveryField, server=server, on_valid=read)
    file = inline(b"hello", "../../etc/a.txt")

    result = call(server, "every_field", {"text": "abc", "count": 3, "file": file})

    expected = {"name": "a.txt", "text": "hello", "type": "application/octet-stream"}
    assert result["structuredContent"] == expected


def test_file_above_the_bound_is_rejected(db: None, server: Server) -> None:
    form_tool(EveryField, server=server, on_valid=echo)
    file = inline(b"x" * (MAX_INLINE_BYTES + 3), "a.txt")

    result = call(server, "every_field", {"text": "abc", "count": 3, "file": file})

    assert result["isError"]
    assert "file" in result.text


def test_many_errors_are_bounded(db: None, server: Server) -> None:
    class Wide(forms.Form):
        def clean(self) -> None:
            raise ValidationError(["x" * 1000] * 50)

    form_tool(Wide, server=server, on_valid=echo)

    lines = call(server, "wide", {}).text.splitlines()

    assert len(lines) == 22
    assert max(map(len, lines)) < 310
    assert lines[-1] == "and more"


def test_default_server_is_used_without_another(monkeypatch: pytest.MonkeyPatch) -> None:
    default = Server("mcp")
    monkeypatch.setattr(registry, "default", default)

    form_tool(TicketForm, name="open_ticket", permission="helpdesk.add_ticket")

    component: Any = default.components.find("tool", "open_ticket")
    assert component.permission == "helpdesk.add_ticket"


def test_permission_of_the_tool_holds(db: None, server: Server) -> None:
    form_tool(TicketForm, server=server, permission="helpdesk.add_ticket")
    user = User.objects.create(username="ada")

    with SyncClient(server, user=user) as client:
        assert client.list_tools() == []


class Password(forms.Form):
    password = forms.CharField(widget=forms.PasswordInput)


class PlainUser(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = User
        fields = "__all__"


class Combined(forms.Form):
    both = forms.MultiValueField(fields=())


async def asend(form: Any, frame: Frame) -> None: ...


async def akwargs(frame: Frame) -> dict[str, Any]:
    return {}


CALLED_WITH_BOTH = "is called with the valid form and the Frame"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_valid": lambda form: None}, f"on_valid of the form TicketForm {CALLED_WITH_BOTH}"),
        ({"on_valid": lambda form, frame, user: None}, "let it take (form, frame)"),
        ({"on_valid": asend}, "is async: write def instead"),
        ({"on_valid": "send"}, "is 'send', which is no function"),
        ({"form_kwargs": lambda: {}}, "form_kwargs of the form TicketForm is called with"),
        ({"form_kwargs": lambda frame, form: {}}, "the Frame alone"),
        ({"form_kwargs": akwargs}, "is async: write def instead"),
        ({"form_kwargs": {"initial": {}}}, "let it take the Frame, and return a dict"),
    ],
)
@pytest.mark.parametrize("declare", [form_tool, form_view])
def test_function_that_cannot_be_called_is_rejected(
    server: Server, declare: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError) as raised:
        declare(TicketForm, server=server, **options)
    assert message in str(raised.value)


class Desk:
    def __call__(self, form: Any, frame: Frame) -> str:
        return "sent"

    def send(self, to: str, form: Any, frame: Frame) -> str:
        return to

    def kwargs(self, frame: Frame) -> dict[str, Any]:
        return {}


@pytest.mark.parametrize(
    "on_valid", [Desk(), partial(Desk().send, "sent"), async_to_sync(asend), print]
)
def test_objects_methods_and_partials_process_a_form(server: Server, on_valid: Any) -> None:
    form_tool(TicketForm, server=server, on_valid=on_valid, form_kwargs=Desk().kwargs)


@pytest.mark.parametrize(
    ("form", "options", "message"),
    [
        (Password, {"on_valid": echo}, "'password' is a password"),
        (PlainUser, {}, "'password' is a password"),
        (Combined, {"on_valid": echo}, "'both' is a MultiValueField"),
        (EveryField, {}, "is no ModelForm: give on_valid"),
        (Ticket, {}, "is no form class"),
    ],
)
def test_form_that_cannot_be_a_tool_is_rejected(
    server: Server, form: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        form_tool(form, server=server, **options)


def test_declaration_reads_no_rows(server: Server) -> None:
    # Without the fixture ``db``, pytest-django raises for a query.
    form_tool(TicketForm, server=server)
    form_tool(EveryField, server=server, on_valid=echo)

    assert len(json.dumps(tool_schema(server, "every_field"))) < 5000


def test_many_choices_are_not_listed() -> None:
    many = [(str(number), str(number)) for number in range(MAX_CHOICES + 1)]

    assert field_argument("size", forms.ChoiceField(choices=many)).schema == {"type": "string"}
    listed = field_argument("size", forms.ChoiceField(choices=many[1:]))
    assert len(listed.schema["enum"]) == MAX_CHOICES


@pytest.mark.parametrize(
    ("model", "field", "kind"),
    [
        (Ticket, "pk", "integer"),
        (Ticket, "customer", "integer"),
        (Comment, "text", "string"),
        (Ticket, "nothing", "string"),
    ],
)
def test_key_schema_is_that_of_the_referenced_field(model: Any, field: str, kind: str) -> None:
    assert key_schema(model, field)["type"] == kind


class Size(models.IntegerChoices):
    SMALL = 1, "Small"
    LARGE = 2, "Large"


class SizeForm(forms.Form):
    size = forms.TypedChoiceField(choices=Size, coerce=int)
    other = forms.TypedChoiceField(choices=Size, coerce=int, required=False, empty_value=None)
    prices = forms.DecimalField(required=False, max_value=9)


@pytest.mark.usefixtures("db")
def test_integer_choices_are_integers_as_in_toolsets(server: Server) -> None:
    form_tool(SizeForm, server=server, on_valid=lambda form, _: form.cleaned_data)

    properties = tool_schema(server, "size")["properties"]
    assert (properties["size"]["type"], properties["size"]["enum"]) == ("integer", [1, 2])
    assert properties["size"]["description"] == "1: Small; 2: Large"
    cleaned = call(server, "size", {"size": 2, "other": None, "prices": "3.20"}).structured
    assert cleaned == {"size": 2, "other": None, "prices": "3.20"}
    assert call(server, "size", {"size": 3}).is_error
    assert "less than or equal to 9" in call(server, "size", {"size": 1, "prices": "9.5"}).text


class WholeTicketForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = Ticket
        fields = ("assignee", "closed", "priority")


def test_null_empties_an_optional_field_of_an_instance(server: Server, customer: Customer) -> None:
    user = User.objects.create(username="ann")
    ticket = Ticket.objects.create(
        subject="Printer", customer=customer, assignee=user, closed=timezone.now()
    )
    kwargs = {"instance": ticket}
    form_tool(WholeTicketForm, server=server, name="change", form_kwargs=lambda frame: kwargs)

    # A field that may not be empty has null for "not given".
    result = call(server, "change", {"assignee": None, "closed": None, "priority": None})

    assert not result.is_error, result
    ticket.refresh_from_db()
    assert (ticket.assignee, ticket.closed, ticket.priority) == (None, None, "normal")


@pytest.mark.usefixtures("db")
@pytest.mark.parametrize("text", ["2026-03-01T12:00:00+02:00", "2026-03-01T10:00:00Z"])
def test_time_with_an_offset_becomes_one_of_a_site_without_time_zones(
    server: Server, settings: Any, text: str
) -> None:
    settings.USE_TZ = False
    settings.TIME_ZONE = "UTC"
    form_tool(MomentsForm, server=server, on_valid=lambda form, _: form.cleaned_data)

    cleaned = call(server, "moments", {"at": text, "split": text}).structured

    assert cleaned == {"at": "2026-03-01T10:00:00", "split": "2026-03-01T10:00:00"}


class MomentsForm(forms.Form):
    at = forms.DateTimeField()
    split = forms.SplitDateTimeField()


class PhoneWidget(forms.MultiWidget):
    def __init__(self) -> None:
        super().__init__({"country": forms.TextInput, "number": forms.TextInput})

    def decompress(self, value: str | None) -> list[str | None]:
        return [*value.split(" ", 1)] if value else [None, None]


class PhoneField(forms.CharField):
    widget = PhoneWidget

    def clean(self, value: list[str]) -> str:
        cleaned: str = super().clean(" ".join(filter(None, value or ())))
        return cleaned


class PhoneForm(forms.Form):
    phone = PhoneField(required=False)


@pytest.mark.usefixtures("db")
@pytest.mark.parametrize(("given", "cleaned"), [("49 30123", "49 30123"), (None, "")])
def test_widget_with_named_inputs_is_filled_in(
    server: Server, given: str | None, cleaned: str
) -> None:
    form_tool(PhoneForm, server=server, on_valid=lambda form, _: form.cleaned_data)

    assert call(server, "phone", {"phone": given}).structured == {"phone": cleaned}


class StayWidget(forms.MultiWidget):
    def __init__(self) -> None:
        super().__init__({"at": forms.SplitDateTimeWidget, "room": forms.TextInput})

    def decompress(self, value: str | None) -> list[Any]:
        if not value:
            return [None, None]
        at, room = value.split(" in ")
        return [datetime.fromisoformat(at), room]


class StayField(forms.CharField):
    widget = StayWidget

    def clean(self, value: Any) -> str:
        (day, time), room = value
        return f"{day} {time} {room}"


class StayForm(forms.Form):
    stay = StayField(required=False)


@pytest.mark.usefixtures("db")
@pytest.mark.parametrize(
    ("given", "cleaned"),
    [("2026-07-28T10:30+00:00 in 7", "2026-07-28 10:30:00 7"), (None, "  ")],
)
def test_widget_with_parts_of_a_part_is_filled_in(
    server: Server, given: str | None, cleaned: str
) -> None:
    form_tool(StayForm, server=server, on_valid=lambda form, _: form.cleaned_data)

    assert call(server, "stay", {"stay": given}).structured == {"stay": cleaned}


class ColoursForm(forms.Form):
    COLOURS: ClassVar = [("r", "Red"), ("g", "Green")]
    listed = forms.MultipleChoiceField(choices=COLOURS, initial=["r"], required=False)
    checked = forms.MultipleChoiceField(
        choices=COLOURS, initial=["r"], required=False, widget=forms.CheckboxSelectMultiple
    )


@pytest.mark.usefixtures("db")
def test_null_empties_a_choice_of_several_with_any_widget(server: Server) -> None:
    form_tool(ColoursForm, server=server, on_valid=lambda form, _: form.cleaned_data)

    result = call(server, "colours", {"listed": None, "checked": None})

    assert result.structured == {"listed": [], "checked": []}


def test_pattern_with_flags_is_left_to_the_form() -> None:
    plain = field_argument("code", forms.RegexField(r"^[a-z]+$"))
    insensitive = field_argument("code", forms.RegexField(re.compile(r"^[a-z]+$", re.IGNORECASE)))

    assert plain.schema["pattern"] == "^[a-z]+$"
    assert "pattern" not in insensitive.schema
