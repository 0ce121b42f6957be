"""The admin of calls: the list and its filters, the dashboard, the export, and who sees them."""

from __future__ import annotations

import csv
import html
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import AsyncClient
from django.test import Client as Browser
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from django_mcp.contrib.call_log import admin as calls_admin
from django_mcp.contrib.call_log import dashboard, export
from django_mcp.contrib.call_log.chart import HEIGHT, chart
from django_mcp.contrib.call_log.dashboard import Counts, in_words, size_in_words
from django_mcp.contrib.call_log.models import FAILURES, Call, class_of

pytestmark = pytest.mark.django_db

LIST = reverse("admin:django_mcp_calls_call_changelist")
DASHBOARD = reverse("admin:django_mcp_calls_dashboard")
EXPORT = reverse("admin:django_mcp_calls_export")
USERS = reverse("admin:django_mcp_calls_users")


def call(*, days_ago: int = 0, outcome: str = "ok", duration: float = 0.01, **columns: Any) -> Call:
    at = timezone.now() - timedelta(days=days_ago)
    return Call.objects.create(
        called_at=at,
        day=at.astimezone(UTC).date(),
        outcome=outcome,
        is_error=outcome in FAILURES,
        duration=duration,
        duration_class=class_of(duration),
        **{
            "server": "desk",
            "kind": "tool",
            "component": "close",
            "target": "close",
            "principal": "token:1",
            "revision": "2026-07-28",
            **columns,
        },
    )


@pytest.fixture
def manager(client: Browser) -> Browser:
    """A member of staff with the permission to view calls, and no other."""
    user = User.objects.create_user("manager", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_call"))
    client.force_login(user)
    return client


def listed(browser: Browser, **filters: str) -> list[str]:
    """The names or URIs in the list."""
    page = browser.get(LIST, filters).content.decode()
    return re.findall(r'class="field-called">([^<]*)<', page)


def test_list_is_newest_first_and_filtered(manager: Browser, ann: User) -> None:
    call(target="a", user=ann, days_ago=40)
    call(target="b", component="refund", outcome="error", days_ago=3)
    call(target="c", program="vscode", kind="prompt", server="shop")
    assert listed(manager) == ["c", "b", "a"]
    week_ago = (timezone.now() - timedelta(days=7)).date().isoformat()
    for filters, expected in (
        ({"user": "ann"}, ["a"]),
        ({"user": "nobody"}, []),
        ({"user": "-"}, ["c", "b"]),
        ({"program": "vscode"}, ["c"]),
        ({"program": "-"}, ["b", "a"]),
        ({"component": "refund"}, ["b"]),
        ({"outcome__exact": "error"}, ["b"]),
        ({"kind__exact": "prompt"}, ["c"]),
        ({"server": "shop"}, ["c"]),
        ({"day__gte": week_ago}, ["c", "b"]),
        ({"day__gte": week_ago, "component": "refund"}, ["b"]),
    ):
        assert listed(manager, **filters) == expected, filters


def test_user_of_the_filter_is_found_by_autocompletion(manager: Browser, ann: User) -> None:
    call(target="a", user=ann)
    assert 'type="text" name="user"' in manager.get(LIST).text

    permit(manager, "view_user")
    page = manager.get(LIST, {"user": "ann"}).text
    select = page.partition('<select name="user"')[2].partition("</select>")[0]
    url = html.unescape(select.partition('data-ajax--url="')[2].partition('"')[0])
    assert url == USERS
    assert '<option value="ann" selected>ann</option>' in select
    names = re.findall(r'data-(?:app-label|model-name|field-name)="([^"]+)"', select)
    keys = ("app_label", "model_name", "field_name")
    query = {**dict(zip(keys, names, strict=True)), "term": "an"}
    (found, *_others) = manager.get(url, query).json()["results"]
    assert found == {"id": "ann", "text": "ann"}
    assert listed(manager, user=found["id"]) == ["a"]
    nobody = manager.get(LIST, {"user": "-"}).text
    assert '<option value="-" selected>anonymous, or not a user</option>' in nobody


def test_form_of_a_filter_keeps_the_other_filters(manager: Browser) -> None:
    page = manager.get(LIST, {"user": "ann", "outcome__exact": "error"}).content.decode()
    form = page.split('name="program"')[0].rpartition("<form")[2]
    assert '<input type="hidden" name="user" value="ann">' in form
    assert '<input type="hidden" name="outcome__exact" value="error">' in form
    exported_filters = page.split(f'href="{EXPORT}?')[1].partition('"')[0].split("&amp;")
    assert sorted(exported_filters) == ["outcome__exact=error", "user=ann"]


def test_list_counts_no_more_than_it_shows(
    manager: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls_admin, "MAX_LISTED", 3)
    monkeypatch.setattr(calls_admin.CallAdmin, "list_per_page", 2)
    for number in range(5):
        call(target=str(number))
    assert listed(manager) == ["4", "3"]
    assert listed(manager, p="2") == ["2"]


def test_call_is_shown_with_its_arguments_and_cannot_be_changed(manager: Browser) -> None:
    columns: Any = {"arguments": '{"note": "<b>tea</b>"}', "response_size": 12_000}
    row = call(**columns, outcome="error", user_id=999_999)
    url = reverse("admin:django_mcp_calls_call_change", args=[row.pk])
    page = manager.get(url).content.decode()
    assert "&lt;b&gt;tea&lt;/b&gt;" in page
    assert "✗ error for the model" in page
    assert "arguments -, response 12 kB" in page
    assert "field-token_page" not in page
    assert "field-error_text" not in page
    assert "<input type" not in page.split('id="content-main"')[1].split("csrf")[2:][:1]
    Call.objects.update(arguments="", arguments_size=12)
    assert "not stored: see log_arguments" in manager.get(url).content.decode()
    Call.objects.update(arguments_size=2)
    assert "not stored" not in manager.get(url).content.decode()
    assert manager.post(url, {}).status_code == 403
    assert manager.get(url.replace("change", "delete")).status_code == 403
    assert manager.get(reverse("admin:django_mcp_calls_call_add")).status_code == 403


@pytest.mark.parametrize("url", [LIST, DASHBOARD, EXPORT, USERS])
def test_pages_need_the_permission_to_view_calls(url: str, client: Browser, ann: User) -> None:
    call()
    assert client.get(url).status_code == 302
    ann.is_staff = True
    ann.save()
    client.force_login(ann)
    assert client.get(url).status_code == 403


def test_challenge_is_no_error(manager: Browser) -> None:
    call(outcome="challenged")
    assert dashboard.read(1).total.errors == 0
    page = manager.get(LIST).content.decode()
    assert "login or scope required" in page.split('id="result_list"')[1]
    assert "✗" not in page


def test_list_has_seconds_and_calls_an_anonymous_caller_so(manager: Browser, ann: User) -> None:
    row = call(principal="public:", user=None)
    call(principal="jwt:somebody", user=None)
    call(user=ann)
    page = manager.get(LIST).content.decode()
    callers = re.findall(r'class="field-caller">([^<]*)<', page)
    assert callers == ["ann", "jwt:somebody", "anonymous"]
    assert f"{timezone.localtime(row.called_at):%H:%M:%S}</a>" in page


def permit(browser: Browser, *codenames: str) -> None:
    user = User.objects.get(username="manager")
    user.user_permissions.add(*Permission.objects.filter(codename__in=codenames))


def test_page_of_a_call_links_to_what_its_reader_may_see(manager: Browser, ann: User) -> None:
    row = call(user=ann, token="7", program="editor", server="mcp", component="refund")
    url = reverse("admin:django_mcp_calls_call_change", args=[row.pk])

    def links() -> set[str]:
        content = manager.get(url).content.decode().split('class="module')[1]
        return {link.partition("?")[0] for link in re.findall('<a href="([^"]*)"', content)}

    assert links() == {LIST}
    permit(manager, "view_user", "view_component", "view_mcpserver", "view_personalaccesstoken")
    assert links() == {
        LIST,
        f"/admin/auth/user/{ann.pk}/change/",
        "/admin/django_mcp_tokens/personalaccesstoken/7/change/",
        "/admin/django_mcp/mcpserver/mcp/change/",
        "/admin/django_mcp/component/mcp_3Atool_3Arefund/change/",
    }
    for link in links() - {"/admin/django_mcp_tokens/personalaccesstoken/7/change/"}:
        assert manager.get(link).status_code == 200, link


def test_failed_call_shows_its_text_and_exceptions_need_a_permission(manager: Browser) -> None:
    text = "RuntimeError: A bug (shop.mcp.refund, line 12)"
    failed: dict[str, Any] = {"outcome": "error", "exception": text, "fingerprint": "0123456789ab"}
    for days_ago in (40, 2, 0):
        row = call(days_ago=days_ago, error="The refund failed <b>", **failed)
    call(outcome="error", error="There is no ticket 0")
    url = reverse("admin:django_mcp_calls_call_change", args=[row.pk])

    page = manager.get(url).content.decode()
    assert "The refund failed &lt;b&gt;" in page
    assert "A bug" not in page
    assert "A bug" not in manager.get(DASHBOARD).content.decode()

    user = User.objects.get(username="manager")
    user.user_permissions.add(Permission.objects.get(codename="view_exception"))
    page = manager.get(url).content.decode()
    assert text in page
    assert f'href="{LIST}?fingerprint=0123456789ab"' in page
    assert len(listed(manager, fingerprint="0123456789ab")) == 3
    (line,) = dashboard.exceptions(7)
    assert (line.text, line.calls) == (text, 2)
    assert text in manager.get(DASHBOARD, {"days": "7"}).content.decode()


def test_numbers_are_those_of_an_example(ann: User) -> None:
    """Ten calls of close by Ann, of 10 ms to 100 ms; two failed. One of refund, by nobody."""
    for number in range(10):
        outcome = "error" if number < 2 else "ok"
        size = 100 * number
        call(
            duration=0.01 * (number + 1),
            outcome=outcome,
            user=ann,
            days_ago=number % 2,
            response_size=size,
        )
    call(component="refund", duration=3, outcome="server_error")
    call(days_ago=7, duration=9)
    numbers = dashboard.read(7)
    assert (numbers.total.calls, numbers.total.errors) == (11, 3)
    assert [(counts.calls, counts.errors) for _day, counts in numbers.days[-2:]] == [(5, 1), (6, 2)]
    close, refund = numbers.components
    assert (close.name, close.counts.calls, close.counts.error_rate) == ("close", 10, "20 %")
    # The fifth and the tenth of ten, to 5 percent.
    assert close.counts.median in ("48 ms", "49 ms", "50 ms", "51 ms", "52 ms")
    assert close.counts.percentile_95 in {f"{number} ms" for number in range(95, 106)}
    assert (close.counts.mean_size, refund.counts.mean_size) == ("450 B", "")
    assert (refund.name, refund.counts.calls, refund.counts.errors) == ("refund", 1, 1)
    by_ann, by_nobody = numbers.users
    assert (by_ann.name, by_ann.counts.calls, by_ann.counts.errors) == ("ann", 10, 2)
    assert (str(by_nobody.name), by_nobody.counts.calls) == ("anonymous, or not a user", 1)


def test_numbers_are_read_from_the_days_of_one_index(ann: User) -> None:
    if connection.vendor != "sqlite":
        pytest.skip("Other databases decide by statistics")
    for number in range(10):
        call(user=ann, component=f"tool-{number}")
    with CaptureQueriesContext(connection) as captured:
        dashboard.read(7)
        dashboard.calls_by_component(7)
        dashboard.of_component("desk", "tool", "tool-3", 14)

    of_calls = [query["sql"] for query in captured if Call._meta.db_table in query["sql"]]
    assert len(of_calls) == 6
    for statement in of_calls:
        with connection.cursor() as cursor:
            plan = cursor.execute(f"EXPLAIN QUERY PLAN {statement}").fetchall()
        assert "SEARCH" in plan[0][3]
        assert "USING COVERING INDEX mcp_call_of_day (day>? AND day<?)" in plan[0][3]


def test_dashboard_links_to_the_calls_that_it_counts(manager: Browser, ann: User) -> None:
    for number in range(3):
        call(target=str(number), user=ann, component="", outcome="client_error")
    call(target="other", days_ago=2)
    page = manager.get(DASHBOARD, {"days": "7"}).content.decode()
    links = [link.replace("&amp;", "&") for link in re.findall(rf'href="({LIST}\?[^"]*)"', page)]
    counted = {link: len(re.findall('"field-called"', manager.get(link).text)) for link in links}
    of_days = [number for link, number in counted.items() if "day__lt" in link]
    assert sorted(of_days) == [0, 0, 0, 0, 0, 1, 3]
    assert sorted(number for link, number in counted.items() if "component=" in link) == [1, 3]
    assert sorted(number for link, number in counted.items() if "user=" in link) == [1, 3]


@pytest.mark.parametrize(("days", "bars"), [("1", 1), ("7", 7), ("30", 30), ("x", 7), ("", 7)])
def test_dashboard_has_a_bar_for_each_day(manager: Browser, days: str, bars: int) -> None:
    page = manager.get(DASHBOARD, {"days": days}).content.decode()
    assert page.count('class="mcp-day"') == bars
    assert "No calls in this period." in page


def test_dashboard_needs_no_exception_of_a_content_security_policy(manager: Browser) -> None:
    call(outcome="error")
    page = manager.get(DASHBOARD).content.decode()
    content = page.split('id="content-main"')[1]
    assert " style=" not in content
    assert "<style" not in content
    assert "<script" not in content.split("</main>")[0]
    assert not re.search(r"\son\w+=", content)


def test_bars_are_scaled_to_a_round_number() -> None:
    first = datetime(2026, 5, 1, tzinfo=UTC).date()
    days = [(first, Counts(30, 0)), (first + timedelta(days=1), Counts(15, 5))]
    drawn = chart(days)
    assert [tick.number for tick in drawn.ticks] == [0, 20, 40]
    all_ok, some_failed = drawn.bars
    assert (all_ok.height, all_ok.errors_height) == (HEIGHT * 30 // 40, 0)
    assert (some_failed.height, some_failed.errors_height) == (HEIGHT // 4, HEIGHT // 8)
    assert some_failed.errors_top + some_failed.errors_height == some_failed.top
    few_failed = chart([(first, Counts(4000, 1))]).bars[0]
    assert few_failed.errors_height == 2


def test_durations_are_short_words() -> None:
    values = (None, 0.0000123, 0.00095, 0.0042, 0.0421, 1.44, 90)
    expected = ["", "12 µs", "950 µs", "4.2 ms", "42 ms", "1.4 s", "1.5 min"]
    assert [in_words(value) for value in values] == expected


def test_sizes_are_short_words() -> None:
    expected = ["", "0 B", "999 B", "1.0 kB", "12 kB", "4.2 MB"]
    sizes = (None, 0, 999, 1000, 12_345, 4_200_000)
    assert [size_in_words(size) for size in sizes] == expected


def exported(parts: Iterable[bytes]) -> list[dict[str, str]]:
    return list(csv.DictReader(StringIO(b"".join(parts).decode())))


def test_export_has_what_is_filtered(
    manager: Browser, ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "AT_ONCE", 2)
    columns: Any = {"arguments": '{"number": 7}', "arguments_size": 12}
    for number in range(5):
        call(target=f"{number}", user=ann, duration=1.5, **columns)
    call(target="other")
    response: Any = manager.get(EXPORT, {"user": "ann"})
    assert response.headers["Content-Type"] == "text/csv; charset=utf-8"
    rows = exported(response.streaming_content)
    assert [row["target"] for row in rows] == ["4", "3", "2", "1", "0"]
    assert rows[0]["user"] == "ann"
    assert rows[0]["duration"] == "1.500000"
    assert rows[0]["arguments"] == '{"number": 7}'
    assert (rows[0]["arguments_size"], rows[0]["response_size"]) == ("12", "")
    assert manager.get(EXPORT, {"unknown": "1"}).headers["Location"] == f"{LIST}?e=1"


def test_cells_are_no_formulas(manager: Browser) -> None:
    texts = {
        **{text: f"'{text}" for text in ("=1+1", "+1", "-1", "@SUM(A1)", "＝1")},
        "\t=1": "'\t'=1",
        "\r=1": "'\r'=1",
        "a;=1": "a;'=1",
        'a;"=1': """a;'"=1""",
        'a; ""=1': """a;' ""=1""",
        '"=1"': """'"=1\"""",
        'quoted,"=1"': 'quoted,"=1"',
        "shop://a-b": "shop://a-b",
    }
    for text in texts:
        call(target=text)
    response: Any = manager.get(EXPORT)
    content = b"".join(response.streaming_content)
    cells = [row["target"] for row in exported([content])][::-1]
    assert cells == [*texts.values()]
    # So that no separator of another language begins a cell within one.
    assert content.startswith(b'"called_at","user",')
    assert content.endswith(b'"\r\n')


@pytest.mark.django_db(transaction=True)
async def test_export_is_streamed_under_asgi(async_client: AsyncClient) -> None:
    root = await User.objects.acreate(username="root", is_staff=True, is_superuser=True)
    await async_client.aforce_login(root)
    await Call.objects.acreate(
        called_at=timezone.now(),
        day=timezone.now().date(),
        is_error=False,
        duration=1,
        duration_class=1,
        target="one",
    )
    response: Any = await async_client.get(EXPORT)
    assert response.is_async
    rows = exported([part async for part in response.streaming_content])
    assert [row["target"] for row in rows] == ["one"]


def test_mean_size_is_that_of_the_calls_with_a_response() -> None:
    call(response_size=100)
    call(response_size=300)
    call(outcome="cancelled")

    assert dashboard.read(1).total.mean_size == "200 B"


def test_small_share_of_errors_is_not_zero() -> None:
    assert dashboard.Counts(calls=10_000, errors=1).error_rate == "< 0.1 %"
    assert dashboard.Counts(calls=1_000, errors=1).error_rate == "0.1 %"
    assert dashboard.Counts(calls=10_000).error_rate == ""


def test_user_that_the_manager_of_the_site_hides_has_a_name_and_a_filter(
    manager: Browser, ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    call(user=ann)
    monkeypatch.setattr(User._default_manager, "get_queryset", lambda: User.objects.none())

    assert [line.name for line in dashboard.read(1).users] == ["ann"]


def test_lines_that_no_table_shows_are_counted(ann: User) -> None:
    for number in range(dashboard.MOST + 2):
        call(component=f"tool-{number}", user=ann)
    call(component="tool-0")

    numbers = dashboard.read(1)

    assert (len(numbers.components), len(numbers.users), numbers.others) == (50, 2, 2)
    assert numbers.components[0].name == "tool-0"


@pytest.mark.parametrize("lookup", ["arguments__contains", "principal__startswith", "token"])
def test_list_is_not_filtered_by_what_it_does_not_show(manager: Browser, lookup: str) -> None:
    call(arguments='{"pin": 1234}', principal="token:1", token="secret")

    assert manager.get(LIST, {lookup: "x"}).status_code == 400
    assert manager.get(LIST, {"program__startswith": "x"}).status_code == 200


def test_numbers_are_counted_where_times_have_no_time_zone(manager: Browser, settings: Any) -> None:
    settings.USE_TZ = False
    call()

    assert manager.get(DASHBOARD).status_code == 200
    assert manager.get(LIST).status_code == 200
    assert dashboard.of_component("desk", "tool", "close", 14).total.calls == 1
    assert list(dashboard.calls_by_component(7)) == [("desk", "tool", "close")]
