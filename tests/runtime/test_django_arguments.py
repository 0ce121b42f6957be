"""Rows of models as arguments, within what a caller may see, and datetimes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.files.base import File
from django.core.files.uploadedfile import InMemoryUploadedFile, UploadedFile
from django.db import connection
from django.db.models import DateField, Model
from django.test.utils import CaptureQueriesContext, isolate_apps
from django.utils import timezone
from pydantic import AwareDatetime, Base64Bytes, BaseModel, Field

from django_mcp import ConfigurationError, Frame, Lookup, Server
from django_mcp.core.components.tool import tool_component
from django_mcp.runtime.django_types.arguments import RowArgument
from django_mcp.testing import Client, ErrorResponse
from django_mcp.testing.plugin import ClientFor

if TYPE_CHECKING:
    from pytest_django import Settings

pytestmark = pytest.mark.django_db(transaction=True)


def own_groups(frame: Frame) -> Any:
    return Group.objects.filter(user=frame.user.pk)


@pytest.fixture
def groups() -> list[Group]:
    return [Group.objects.create(pk=pk, name=name) for pk, name in ((1, "staff"), (2, "guests"))]


@pytest.fixture
def server(groups: list[Group]) -> Server:
    server = Server("desk", notify_lists_on_initialize=False)

    @server.tool
    def name(group: Group) -> str:
        return group.name

    @server.tool
    async def aname(group: Group) -> str:
        return group.name

    @server.tool
    def names(groups: list[Group]) -> list[str]:
        return [group.name for group in groups]

    @server.tool
    async def anames(groups: list[Group]) -> list[str]:
        return [group.name for group in groups]

    @server.tool
    def own(group: Annotated[Group, Lookup(own_groups)]) -> str:  # type: ignore[valid-type]
        return group.name

    @server.resource("group://{group}")
    def read(group: Annotated[Group, Lookup(own_groups)]) -> str:  # type: ignore[valid-type]
        return group.name

    @server.prompt
    def describe(group: Group) -> str:
        return group.name

    return server


async def text(client: Any, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    words: str = result["content"][0]["text"]
    return f"error: {words}" if result.get("isError") else words


async def test_row_is_looked_up_by_its_key(server: Server, client_for: ClientFor) -> None:
    async with client_for(server) as client:
        for tool in ("name", "aname"):
            assert await text(client, tool, group=1) == "staff"
            assert await text(client, tool, group=9) == "error: There is no group 9"
        assert (await client.get_prompt("describe", {"group": "2"}))["messages"]


async def test_row_of_others_is_as_unknown_as_none(server: Server) -> None:
    user = await User.objects.acreate(username="ada")
    await user.groups.aadd(1)
    async with Client(server, user=user) as client:
        assert await text(client, "own", group=1) == "staff"
        assert await text(client, "own", group=2) == "error: There is no group 2"
        assert (await client.read_resource("group://1")).text == "staff"
        errors = []
        for uri in ("group://2", "group://9", "group://x"):
            with pytest.raises(ErrorResponse) as caught:
                await client.read_resource(uri)
            errors.append((caught.value.code, caught.value.message))
    assert len(set(errors)) == 1


@pytest.mark.parametrize("tool", ["names", "anames"])
def test_several_rows_take_one_query(server: Server, tool: str) -> None:
    with CaptureQueriesContext(
        connection,
    ) as captured:
        result = server.call_tool(tool, {"groups": [2, 1, 2]})
    assert result["content"][0]["text"] == '["guests","staff","guests"]'
    if tool == "names":
        assert len(captured) <= 1
    failed = server.call_tool(tool, {"groups": [1, 7]})
    assert failed["content"][0]["text"] == "There is no group 7"


@isolate_apps("tests")
def test_rows_are_looked_up_by_a_field_of_another_type_than_text() -> None:
    class Holiday(Model):
        day = DateField(unique=True)

        class Meta:
            app_label = "tests"

    def days(of: list[Any]) -> list[str]:
        return [str(holiday.day) for holiday in of]

    row = Annotated[Holiday, Lookup(field="day")]
    days.__annotations__["of"] = list[row]
    server = Server("desk")
    server.tool(days)
    with connection.schema_editor() as editor:
        editor.create_model(Holiday)
    try:
        Holiday._default_manager.create(day=date(2026, 1, 6))
        for sent, answer in (
            (["2026-01-06"], '["2026-01-06"]'),
            (["2026-01-07"], "There is no holiday 2026-01-07"),
            (["soon"], "There is no holiday soon"),
        ):
            assert server.call_tool("days", {"of": sent})["content"][0]["text"] == answer
    finally:
        with connection.schema_editor() as editor:
            editor.delete_model(Holiday)


def test_text_that_some_databases_refuse_is_unknown(groups: list[Group]) -> None:
    lookup = Lookup(Group.objects, field="name")
    row = RowArgument(Group, lookup, "staff\0")
    with CaptureQueriesContext(connection) as captured, pytest.raises(Group.DoesNotExist):
        row.get(None, ExitStack())
    with pytest.raises(Group.DoesNotExist):
        row.get_several([row], None, ExitStack())
    assert not captured


def test_row_is_listed_as_the_type_of_its_field() -> None:
    def find(
        a: Group,
        b: Annotated[Group, Lookup(field="name")],  # type: ignore[valid-type]
        c: Annotated[Group | None, Lookup(Group.objects)] = None,
    ) -> None: ...

    listed = tool_component(find).input_schema["properties"]
    assert listed["a"] == {"type": "integer"}
    assert listed["b"] == {"type": "string", "maxLength": 150}
    assert listed["c"]["anyOf"] == [{"type": "integer"}, {"type": "null"}]


async def test_query_set_of_a_lookup_is_not_read_at_registration(server: Server) -> None:
    # In an event loop, a query raises.
    for pk in (1, 2):

        def one_of(group: Any) -> str:
            return str(group.name)

        lookup = Lookup(Group.objects.filter(pk=pk))
        one_of.__annotations__["group"] = Annotated[Group, lookup]
        server.tool(name=f"one_of_{pk}")(one_of)

    async with Client(server) as client:
        assert await text(client, "one_of_1", group=1) == "staff"
        assert await text(client, "one_of_2", group=2) == "guests"
        assert await text(client, "one_of_2", group=1) == "error: There is no group 1"


@pytest.mark.parametrize(
    ("field", "words"), [("user", "not unique"), ("nothing", "names 'nothing'")]
)
def test_lookup_by_another_field_is_rejected(field: str, words: str) -> None:
    def find(group: Any) -> None: ...

    find.__annotations__["group"] = Annotated[Group, Lookup(field=field)]
    with pytest.raises(ConfigurationError, match=words):
        tool_component(find)


class TestDatetime:
    @pytest.fixture
    def validate(self) -> Any:
        def at(time: datetime | None = None) -> None: ...

        return tool_component(at).validate_input

    def test_naive_datetime_is_in_the_current_time_zone(self, validate: Any) -> None:
        with timezone.override("Europe/Zurich"):
            time = validate({"time": "2026-07-01T10:00"})["time"]
        assert time.isoformat() == "2026-07-01T10:00:00+02:00"

    def test_aware_datetime_keeps_its_offset(self, validate: Any) -> None:
        time = validate({"time": "2026-07-01T10:00+05:00"})["time"]
        assert time.isoformat() == "2026-07-01T10:00:00+05:00"

    def test_time_that_a_clock_skips_is_rejected(self, validate: Any) -> None:
        with timezone.override("Europe/Zurich"), pytest.raises(ValueError, match="with an offset"):
            validate({"time": "2026-03-29T02:30"})

    def test_datetime_stays_naive_without_time_zones(
        self, validate: Any, settings: Settings
    ) -> None:
        settings.USE_TZ = False
        assert validate({"time": "2026-07-01T10:00"})["time"].tzinfo is None
        aware = validate({"time": "2026-07-01T10:00+05:00"})["time"]
        assert aware.isoformat() == "2026-07-01T05:00:00"

    def test_datetime_in_models_is_that_of_the_site(self, settings: Settings) -> None:
        validate = tool_component(keep).validate_input
        given = {"at": "2026-07-01T10:00", "moments": ["2026-07-01T10:00+05:00"], "data": "aGk="}
        arguments = {"document": {**given, "inner": given}, "by_name": {"a": given}}
        with timezone.override("Europe/Zurich"):
            kept = validate(arguments)
        for document in (kept["document"], kept["document"].inner, kept["by_name"]["a"]):
            assert document.at.isoformat() == "2026-07-01T10:00:00+02:00"
            assert document.moments[0].isoformat() == "2026-07-01T10:00:00+05:00"
            assert document.data == b"hi"

        settings.USE_TZ = False
        kept = validate(arguments)
        for document in (kept["document"], kept["document"].inner, kept["by_name"]["a"]):
            assert document.at.isoformat() == "2026-07-01T10:00:00"
            assert document.moments[0].isoformat() == "2026-07-01T05:00:00"

    def test_types_that_say_more_than_datetime_and_bytes_are_left_to_pydantic(self) -> None:
        validate = tool_component(sent).validate_input
        given = validate({"letter": {"at": "2026-07-01T10:00+05:00", "text": "aGk="}})["letter"]
        assert given.at.utcoffset() == timedelta(hours=5)
        assert given.text == b"hi"
        with pytest.raises(ValueError, match="should have timezone info"):
            validate({"letter": {"at": "2026-07-01T10:00", "text": "aGk="}})

    def test_bytes_in_models_are_listed_and_read_as_base64(self) -> None:
        component = tool_component(keep)
        listed = component.input_schema["$defs"]["Document"]["properties"]["data"]
        assert listed == {"type": "string", "contentEncoding": "base64"}
        wrong = {"document": {"at": "2026-07-01T10:00Z", "data": "not base64"}}
        with pytest.raises(ValueError, match=r"document\.data: Input should be base64"):
            component.validate_input(wrong)


class Document(BaseModel):
    at: datetime
    data: bytes
    moments: list[datetime] = []
    inner: Document | None = None


class Letter(BaseModel):
    at: AwareDatetime
    text: Base64Bytes


def keep(document: Document, by_name: dict[str, Document] | None = None) -> None: ...


def sent(letter: Letter) -> None: ...


@pytest.mark.parametrize("kind", [File, InMemoryUploadedFile])
def test_parameter_for_another_file_names_what_takes_files(kind: type[Any]) -> None:
    def store(file: Any) -> None:
        """Store a file."""

    store.__annotations__["file"] = kind

    with pytest.raises(ConfigurationError, match=r"'?file'?.*annotate UploadedFile"):
        tool_component(store)


@pytest.mark.parametrize(
    "annotation",
    [
        dict[str, Group],
        list[Group | None],
        list[list[Group]],
        tuple[Group, int],
        tuple[Group, User],
        tuple[Group, UploadedFile],  # type: ignore[type-arg]
        Iterable[Group],
        Annotated[dict[str, UploadedFile], Field(max_length=2)] | None,  # type: ignore[type-arg]
    ],
    ids=["dict", "optional", "nested", "number", "two models", "file", "iterable", "option"],
)
def test_rows_and_files_that_would_not_be_looked_up_are_refused(annotation: Any) -> None:
    def store(given: Any) -> None:
        """Store."""

    store.__annotations__["given"] = annotation
    with pytest.raises(ConfigurationError, match="argument given has rows or files where"):
        tool_component(store)


@pytest.mark.parametrize(
    "annotation",
    [
        list[Group] | None,
        tuple[Group, ...],
        tuple[Group, Group],
        Sequence[Group],
        Annotated[list[Annotated[Group, Lookup(own_groups)]], Field(max_length=2)],
        Group | int,
    ],
    ids=["option", "any number", "pair", "sequence", "annotated", "or a key"],
)
def test_rows_that_are_looked_up_together_are_taken(annotation: Any) -> None:
    def store(given: Any) -> None:
        """Store."""

    store.__annotations__["given"] = annotation
    assert tool_component(store).input_schema["required"] == ["given"]
