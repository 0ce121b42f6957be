"""Rows of calls: one for each, with what a tool allows of its arguments, written in batches."""

from __future__ import annotations

import asyncio
import json
import logging
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import DataError, OperationalError, connection
from django.utils import timezone

from django_mcp import ResourceNotFound, Server
from django_mcp.contrib.call_log import recording
from django_mcp.contrib.call_log import rows as rows_module
from django_mcp.contrib.call_log.models import Call, class_of, middle_of_class, percentile
from django_mcp.core.auth.base import Principal
from django_mcp.core.components.base import ConfigurationError
from django_mcp.core.dispatch import call_records
from django_mcp.runtime import background, housekeeping
from django_mcp.testing import Client, accept
from django_mcp.testing.results import ErrorResponse
from django_mcp.ui import template_view
from tests.contrib.call_log.conftest import entry, rows
from tests.ui.conftest import Templates, templates
from tests.waiting import SECONDS, until

__all__ = ["templates"]

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "hunter2"


def test_migrations_are_complete() -> None:
    call_command("makemigrations", "django_mcp_calls", check=True, dry_run=True, verbosity=0)


async def test_each_kind_of_call_is_one_row(client_for: Any, server: Server, ann: User) -> None:
    async with client_for(server, user=ann, timeout=SECONDS) as client:
        await client.call_tool("close", {"number": 7, "note": SECRET})
        await client.list_tools()
        await client.read_resource("desk://tickets/5")
        await client.get_prompt("summarise", {"text": SECRET})
        version = client.revision.version
    close, ticket, summarise = await rows()
    assert (close.server, close.kind, close.component) == ("desk", "tool", "close")
    assert (ticket.kind, ticket.component) == ("resource", "desk://tickets/{number}")
    assert ticket.target == "desk://tickets/5"
    assert (summarise.kind, summarise.component) == ("prompt", "summarise")
    for row in (close, ticket, summarise):
        assert (row.user, row.principal) == (ann, f"test:{ann.pk}")
        assert (row.outcome, row.is_error, row.revision) == ("ok", False, version)
        assert row.client_name == "django-mcp-test-client"
        assert row.called_at.date() == row.day
        assert 0 < row.duration < 5
        assert row.duration_class == class_of(row.duration)
        assert SECRET not in str(vars(row))


async def test_read_is_one_of_the_template_that_has_answered(server: Server) -> None:
    @server.resource("desk://{+path}", name="any")
    def any_path(path: str) -> str:
        if path == "tickets/1":
            return "The first"
        raise ResourceNotFound

    @server.resource("desk://tickets/{number}/{+rest}", permission="auth.view_user")
    def part(number: str, rest: str) -> str:
        return rest

    server.components.remove("resource_template", "desk://tickets/{number}")

    @server.resource("desk://tickets/{number}", name="ticket")
    def ticket(number: str) -> str:
        if number == "1":
            raise ResourceNotFound
        return number

    async with Client(server) as client:
        await client.read_resource("desk://tickets/5")
        await client.read_resource("desk://tickets/1")
        with pytest.raises(ErrorResponse):
            await client.read_resource("desk://tickets/5/notes")
    specific, general, hidden = await rows()
    assert specific.component == "desk://tickets/{number}"
    assert general.component == "desk://{+path}"
    assert hidden.component == "desk://{+path}"


def test_read_without_access_is_one_of_the_most_specific_template(server: Server) -> None:
    server.resource("desk://{+path}", name="any")(lambda path: path)
    nobody = Principal(scheme="anonymous")
    read = entry(server, nobody, method="resources/read", target="desk://tickets/5")
    assert rows_module.component_of(read) == "desk://tickets/{number}"
    assert rows_module.component_of(read._replace(target="shop://tea")) == ""
    assert rows_module.component_of(read._replace(component_read="desk://of-a-session")) == ""


async def test_read_of_a_version_of_a_view_is_one_of_the_view(
    server: Server, templates: Templates
) -> None:
    templates({"shop/mcp/_cart.html": "<p>Tea</p>"})
    server.tool(name="show_cart", ui=template_view(fragment="shop/mcp/_cart.html"))(lambda: {})
    async with Client(server) as client:
        (page,) = await client.list_resources()
        await client.read_resource(page["uri"])
    (row,) = await rows()
    assert (row.component, row.target) == ("ui://shop/cart", page["uri"])
    unread = entry(server, Principal(scheme="anonymous"), method="resources/read")
    assert rows_module.component_of(unread._replace(target=page["uri"])) == "ui://shop/cart"


async def test_each_outcome_is_a_row(server: Server) -> None:
    async with Client(server, elicitation=accept(yes=True)) as client:
        await client.call_tool("close", {"number": 0})
        with pytest.raises(ErrorResponse):
            await client.call_tool("unknown\0", {})
        with pytest.raises(ErrorResponse):
            await client.read_resource("desk://tickets/13")
        await client.call_tool("ask", {})
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await client.call_tool("wait", {})
    failed, unknown, broken, asked, answered, cancelled = await rows()
    assert (failed.outcome, failed.is_error) == ("error", True)
    assert (unknown.outcome, unknown.target, unknown.component) == ("client_error", "unknown", "")
    assert (broken.outcome, broken.is_error) == ("server_error", True)
    assert (asked.outcome, answered.outcome) == ("input_required", "ok")
    assert (cancelled.outcome, cancelled.is_error) == ("cancelled", False)
    assert cancelled.duration > 0.1


async def test_row_of_a_failed_call_has_the_text_that_its_client_received(server: Server) -> None:
    async with Client(server) as client:
        await client.call_tool("close", {"number": 0})
        with pytest.raises(ErrorResponse):
            await client.call_tool("unknown", {})
        await client.call_tool("close", {"number": 1})
    refused, unknown, closed = await rows()
    assert (refused.error, refused.exception, refused.fingerprint) == (
        "There is no ticket 0",
        "",
        "",
    )
    assert "unknown" in unknown.error
    assert (closed.error, closed.exception, closed.fingerprint) == ("", "", "")


async def test_row_has_the_exception_and_its_fingerprint(server: Server) -> None:
    async with Client(server, raise_exceptions=False) as client:
        for number in ("13", "13", "14"):
            with pytest.raises(ErrorResponse):
                await client.read_resource(f"desk://tickets/{number}")
    first, second, other = await rows()
    assert first.error == "The resource could not be read"
    assert first.exception.startswith("RuntimeError: A bug (")
    assert "ticket, line " in first.exception
    assert len(first.fingerprint) == 12
    assert second.fingerprint == first.fingerprint
    assert (other.exception[:10], other.fingerprint == first.fingerprint) == ("KeyError: ", False)


async def test_exception_without_a_text_is_answered_and_has_a_row(server: Server) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError("no text")

    @server.resource("desk://mute")
    def mute() -> str:
        raise Mute

    async with Client(server, raise_exceptions=False) as client:
        with pytest.raises(ErrorResponse):
            await client.read_resource("desk://mute")
        assert await client.read_resource("desk://tickets/5")
    failed, _read = await rows()
    assert (failed.outcome, failed.error) == ("server_error", "The resource could not be read")
    assert "Mute: (it has no text) (" in failed.exception


async def test_row_has_the_bytes_of_arguments_and_response(server: Server) -> None:
    async with Client(server) as client:
        await client.call_tool("close", {"number": 7, "note": "ä"})
        await client.call_tool("close", {"number": 7, "note": "ä" * 1000})
        await client.read_resource("desk://tickets/5")
        await client.read_resource("desk://tickets/" + "5" * 1000)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await client.call_tool("wait", {})
    short, long, ticket, long_ticket, cancelled = await rows()
    assert short.arguments_size == len('{"number":7,"note":"ä"}'.encode())
    assert long.arguments_size == short.arguments_size + 2 * 999
    assert short.response_size == long.response_size
    # The URI and the text of the resource.
    assert ticket.response_size is not None
    assert long_ticket.response_size == ticket.response_size + 2 * 999
    assert (ticket.arguments_size, cancelled.arguments_size) == (None, None)
    assert cancelled.response_size is None


def test_row_has_the_token_or_the_program(server: Server, ann: User) -> None:
    token = Principal(scheme="token", user=ann, claims={"token_id": 3, "token_name": "CI"})
    oauth = Principal(scheme="oauth", user=ann, claims={"client_id": "vscode"})
    issued = Principal(scheme="jwt", subject="x" * 600, claims={"azp": ["a list"]})
    batch = rows_module.Batch(connection)
    by_token, by_program, by_issuer = (
        batch.common(entry(server, principal)) for principal in (token, oauth, issued)
    )
    assert (by_token.token, by_token.program, by_token.user) == ("3", "CI", ann.pk)
    assert (by_program.token, by_program.program) == ("", "vscode")
    assert (by_issuer.program, by_issuer.user) == ("(list)", None)
    assert len(by_issuer.principal) == 500
    assert (len(by_token.client_name), by_token.client_version) == (100, "2")


def test_calls_of_one_client_and_tool_have_one_copy_of_their_columns(server: Server) -> None:
    nobody = Principal(scheme="anonymous")
    batch = rows_module.Batch(connection)
    first, second = (batch.common(entry(server, nobody)) for _ in range(2))
    other = batch.common(entry(server, nobody, target="wait"))
    assert first is second
    assert (other.component, other.client_name) == ("wait", first.client_name)


def test_client_that_names_itself_by_a_list_has_a_row(server: Server) -> None:
    nobody = Principal(scheme="anonymous")
    recording.QUEUE.waiting.append(entry(server, nobody, client={"name": ["x"], "version": {}}))
    recording.QUEUE.write_batch()
    row = Call.objects.get()
    assert (row.client_name, row.client_version) == ("(list)", "(dict)")


def test_what_databases_refuse_is_left_out(server: Server) -> None:
    nobody = Principal(scheme="anonymous")
    recording.QUEUE.waiting.append(entry(server, nobody, target="a\0\ud800" + "b" * 900))
    recording.QUEUE.write_batch()
    row = Call.objects.get()
    assert row.target.startswith("a?bb")
    assert len(row.target) == 500


async def test_arguments_are_stored_where_the_tool_names_them(server: Server) -> None:
    async with Client(server) as client:
        await client.call_tool("close", {"number": 7, "note": SECRET, "tags": ["a", {"b": None}]})
        await client.call_tool("close", {"note": SECRET})
        await client.call_tool("wait", {"number": 7})
    named, missing, other = await rows()
    assert json.loads(named.arguments) == {"number": 7, "tags": ["a", {"b": None}]}
    assert missing.arguments == other.arguments == ""


def test_stored_arguments_are_bounded() -> None:
    names = ("a", "b")
    long = recording.logged(names, {"a": "x" * 10_000, "b": [1] * 10_000})
    deep = recording.logged(names, {"a": {"x" * 10_000: ["y" * 10_000] * 100}})
    assert json.loads(long)["a"] == "x" * recording.MAX_TEXT + "…"
    assert len(long) < 1000
    assert json.loads(deep) == {"a": "…"}
    assert recording.logged(names, ["no", "object"]) == recording.logged(names, {"c": 1}) == ""


def test_signed_url_of_a_file_is_not_stored() -> None:
    file = {"download_url": "https://a.example/f?sig=x", "file_id": "1"}
    stored = recording.logged(("a", "b"), {"a": file, "b": [file]})
    hidden = {"download_url": "…", "file_id": "1"}
    assert json.loads(stored) == {"a": hidden, "b": [hidden]}


def test_unknown_argument_is_refused_when_the_tool_is_registered(server: Server) -> None:
    def reopen(number: int) -> str:
        return ""

    with pytest.raises(ConfigurationError, match=r"logs 'nmber', .* arguments \(number\)"):
        server.tool(log_arguments=["nmber"])(reopen)
    with pytest.raises(ConfigurationError, match="write a list"):
        server.tool(log_arguments="number")(reopen)


def calls(server: Server, count: int) -> list[recording.Entry]:
    nobody = Principal(scheme="anonymous")
    return [entry(server, nobody, target=f"call {number}") for number in range(count)]


async def test_rows_are_written_soon_and_in_batches(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    write = rows_module.write

    def observed(entries: Any) -> None:
        sizes.append(len(entries))
        write(entries)

    monkeypatch.setattr(rows_module, "write", observed)
    monkeypatch.setattr(recording, "INTERVAL", 0.05)
    recording.QUEUE.waiting.extend(calls(server, 2 * recording.BATCH))
    async with Client(server) as client:
        await client.call_tool("close", {"number": 1})
        assert sizes == []
        await until(lambda: sum(sizes) == 2 * recording.BATCH + 1)
    assert sizes == [500, 500, 1]
    assert await Call.objects.acount() == 1001


async def test_full_batch_does_not_wait_for_the_interval(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "INTERVAL", 600)
    async with Client(server) as client:
        await client.call_tool("close", {"number": 1})
        recording.QUEUE.waiting.extend(calls(server, recording.BATCH))
        await client.call_tool("close", {"number": 2})
        await until(lambda: not recording.QUEUE.waiting)
        # The thread may still write the last batch.
        await recording.QUEUE.write()
    assert await Call.objects.acount() == recording.BATCH + 2


async def test_calls_wait_while_the_database_is_away(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write = rows_module.write

    def fail(entries: Any) -> None:
        raise OperationalError("away")

    monkeypatch.setattr(rows_module, "write", fail)
    recording.QUEUE.waiting.extend(calls(server, 3))
    await recording.QUEUE.write()
    await recording.QUEUE.write()
    assert [record.message for record in caplog.records] == [recording.NOT_WRITTEN]

    monkeypatch.setattr(rows_module, "write", write)
    assert [row.target for row in await rows()] == ["call 0", "call 1", "call 2"]


async def test_oldest_calls_are_dropped_when_the_queue_is_full(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write = rows_module.write

    def fail(entries: Any) -> None:
        # They are added while a batch is being written.
        recording.QUEUE.waiting.extend(calls(server, 2))
        raise OperationalError("away")

    recording.QUEUE.waiting.extend(calls(server, recording.MAX_WAITING))
    monkeypatch.setattr(rows_module, "write", fail)
    await recording.QUEUE.write()
    assert len(recording.QUEUE.waiting) == recording.MAX_WAITING
    assert recording.QUEUE.waiting[0].target == "call 2"
    async with Client(server) as client:
        await client.call_tool("close", {"number": 1})
    assert len(recording.QUEUE.waiting) == recording.MAX_WAITING
    assert recording.QUEUE.waiting[0].target == "call 3"
    assert recording.DROPPED in caplog.text

    monkeypatch.setattr(rows_module, "write", write)
    await recording.QUEUE.write()
    assert await Call.objects.acount() == recording.MAX_WAITING


async def test_refused_row_does_not_hold_up_the_others(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write = rows_module.write

    def refuse(entries: Any) -> None:
        if any(entry.target == "call 1" for entry in entries):
            raise DataError("refused")
        write(entries)

    monkeypatch.setattr(rows_module, "write", refuse)
    recording.QUEUE.waiting.extend(calls(server, 3))
    assert [row.target for row in await rows()] == ["call 0", "call 2"]
    assert recording.REFUSED in caplog.text


async def test_what_waits_is_written_before_the_event_loop_ends(
    server: Server,
) -> None:
    recording.QUEUE.waiting.extend(calls(server, 3))
    await background.finish()
    assert await Call.objects.acount() == 3


def test_what_waits_is_written_when_python_exits(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    recording.QUEUE.waiting.extend(calls(server, 2 * recording.BATCH + 1))
    recording.QUEUE.write_at_exit()
    assert Call.objects.count() == 1001

    def fail(entries: Any) -> None:
        raise OperationalError("away")

    monkeypatch.setattr(rows_module, "write", fail)
    recording.QUEUE.waiting.extend(calls(server, 3))
    recording.QUEUE.write_at_exit()
    assert "The last 3 calls are missing in the call log: away" in caplog.text


def test_process_that_exits_waits_a_limited_time_for_a_batch_that_hangs(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(recording, "EXIT_WITHIN", 0.01)
    recording.QUEUE.waiting.extend(calls(server, 3))
    with recording.QUEUE.writing:  # As a thread does whose database hangs.
        recording.QUEUE.write_at_exit()
    assert "The last 3 calls are missing in the call log: another batch" in caplog.text


async def test_calls_of_the_test_client_are_not_recorded_by_default(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Client, "records_calls", False)
    async with Client(server) as client:
        await client.call_tool("close", {"number": 1})
    assert await rows() == []
    assert call_records.is_recorded.get()


def test_user_who_was_deleted_leaves_the_row(server: Server, ann: User) -> None:
    principal = Principal(scheme="session", user=ann)
    recording.QUEUE.waiting.extend([entry(server, principal)] * 2)
    recording.QUEUE.write_batch()
    key = ann.pk
    ann.delete()
    recording.QUEUE.waiting.append(entry(server, principal, user=User(pk=key)))
    recording.QUEUE.write_batch()
    stored = Call.objects.select_related("user").order_by("pk")
    assert [(row.user, row.principal) for row in stored] == [(None, f"session:{key}")] * 3


async def test_old_rows_are_deleted_by_the_housekeeping(server: Server, configure: Any) -> None:
    configure(CALL_LOG_RETENTION=3600)
    now = timezone.now()
    nobody = Principal(scheme="anonymous")
    for age in (30, 3500, 3700, 100_000):
        moment = (now - timedelta(seconds=age)).timestamp()
        recording.QUEUE.waiting.append(entry(server, nobody, ended_at=moment, target=str(age)))
    await rows()
    for step in housekeeping.steps_of_extensions():
        await step(0)
    assert [row.target for row in await rows()] == ["30", "3500"]


def test_rows_are_kept_for_ever_without_a_retention(server: Server, configure: Any) -> None:
    configure(CALL_LOG_RETENTION=None)
    nobody = Principal(scheme="anonymous")
    recording.QUEUE.waiting.append(entry(server, nobody, ended_at=1e9))
    recording.QUEUE.write_batch()
    assert Call.objects.all().prune() == 0
    configure()
    assert Call.objects.all().prune() == 1


def test_old_rows_are_deleted_in_steps(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django_mcp.contrib.call_log.models.DELETED_AT_ONCE", 2)
    nobody = Principal(scheme="anonymous")
    recording.QUEUE.waiting.extend([entry(server, nobody, ended_at=1e9)] * 5)
    recording.QUEUE.write_batch()
    assert Call.objects.all().prune() == 5

    recording.QUEUE.waiting.extend([entry(server, nobody, ended_at=1e9)] * 5)
    recording.QUEUE.write_batch()
    monkeypatch.setattr("django_mcp.contrib.call_log.models.PRUNE_WITHIN", 0)
    assert Call.objects.all().prune() == 2


def test_classes_of_durations_are_exact_to_five_percent() -> None:
    for seconds in (1e-6, 3.3e-5, 0.0127, 1, 59.9, 86_400):
        assert middle_of_class(class_of(seconds)) == pytest.approx(seconds, rel=0.05)
    assert class_of(0) == class_of(-1) == 0


def test_percentile_is_that_of_the_nearest_rank() -> None:
    counts = {class_of(0.01): 90, class_of(1): 9, class_of(10): 1}
    assert percentile(counts, 0.5) == pytest.approx(0.01, rel=0.05)
    assert percentile(counts, 0.95) == pytest.approx(1, rel=0.05)
    assert percentile(counts, 1) == pytest.approx(10, rel=0.05)
    assert percentile({}, 0.5) is None


def test_log_line_is_written_beside_the_rows(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    async def call() -> None:
        async with Client(server) as client:
            await client.call_tool("close", {"number": 1})

    with caplog.at_level(logging.INFO, "django_mcp.calls"):
        asyncio.run(call())
    assert "tools/call 'close': ok" in caplog.text
    # After a second, it is written.
    assert len(recording.QUEUE.waiting) + Call.objects.count() == 1
