"""Actions on selected objects, in two steps, and the pages that some of them return.

The first request asks for the page of an action, without its values: by convention, it changes
nothing. The second request sends the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from django import forms
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils.datastructures import MultiValueDict

from django_mcp.core.protocol.errors import ToolError
from django_mcp.forms.fields import tool_error
from django_mcp.forms.tool import error_lines
from django_mcp.modeladmin import changes, descriptions, html_forms, lists, pages, previews, values
from django_mcp.modeladmin.calls import Call, Visit
from django_mcp.modeladmin.lists import Filters, filter_query
from django_mcp.modeladmin.models import AnyModelAdmin
from django_mcp.modeladmin.previews import Preview
from django_mcp.openapi.calls.responses import download, is_download, text_of

DELETE_SELECTED = "delete_selected"
MAX_LISTED = 50


def run(
    call: Call,
    label: str,
    action: str,
    pks: Sequence[str],
    filters: Filters,
    given: Mapping[str, Any],
    confirm: str | None,
    may_ask: bool,
) -> Any:
    """Return a preview, or run an action after its preview is confirmed."""
    model_admin = call.find_to_write(label)
    query = filter_query(filters)
    preview = _preview(call, model_admin, action, pks, query)
    answer = previews.confirmed(call, preview, confirm, may_ask=may_ask)
    if answer is not None:
        return answer
    call = call.refreshed()
    using = changes.database_of(call, model_admin)
    with transaction.atomic(using=using):
        changes.lock(model_admin, pks, using)
        previews.check_unchanged(preview, _preview(call, model_admin, action, pks, query))
        result = _ActionRun(call, model_admin, action, pks, query, dict(given)).result()
    if isinstance(result, dict) and "page" in result and confirm is not None:
        result["confirm"] = confirm
    return result


def _preview(
    call: Call, model_admin: AnyModelAdmin, action: str, pks: Sequence[str], query: Any
) -> Preview:
    """Return which objects an action would be run on; raises ToolError."""
    visit = lists.visit_list(call, model_admin, query)
    descriptions_by_name = {
        each["name"]: each["description"] for each in descriptions.actions(call, model_admin)
    }
    if action not in descriptions_by_name:
        raise ToolError(
            f"{action[:80]}: no such action: {pages.did_you_mean(action, [*descriptions_by_name])}"
        )
    objects = _selected(visit, pks)
    shown: dict[str, Any] = {
        "action": descriptions_by_name[action],
        "objects": [values.identity(obj) for obj in objects[:MAX_LISTED]],
        "count": len(objects),
    }
    facts: list[Any] = []
    question = (
        f"{descriptions_by_name[action]}: {', '.join(str(obj) for obj in objects[:MAX_LISTED])}. "
    )
    if action == DELETE_SELECTED:
        result: Any = model_admin.get_deleted_objects(objects, visit.request)
        deleted, counts, perms_lacking, protected = result
        changes.raise_refused(perms_lacking, protected)
        shown |= changes.consequences(deleted, dict(counts))
        facts = [shown["deleted"], shown["counts"]]
        question += changes.deletion_question(dict(counts))
    return Preview(
        subject=(action, model_admin.opts.label, sorted(map(str, pks)), query),
        shown=shown,
        state=previews.digest(objects, *facts),
        question=question,
    )


def _selected(visit: Visit, pks: Sequence[str]) -> list[Any]:
    """Return the objects of a list; raises ToolError for those that it does not show."""
    assert visit.changelist is not None
    wanted = [*dict.fromkeys(map(str, pks))]
    if any("\0" in pk for pk in wanted):
        raise ToolError("These are no keys of this model.")
    try:
        rows = visit.changelist.get_queryset(visit.request).filter(pk__in=wanted)
        by_key = {str(obj.pk): obj for obj in rows}
    except (ValueError, TypeError, OverflowError, ValidationError) as error:
        raise ToolError("These are no keys of this model.") from error
    if missing := [pk for pk in wanted if pk not in by_key]:
        raise ToolError(
            f"The list does not show {', '.join(missing[:10])[:200]}. If a filter shows them, give "
            "it as filters."
        )
    return [by_key[pk] for pk in wanted]


@dataclass(slots=True)
class _ActionRun:
    """The requests that a browser sends to run an action."""

    call: Call
    model_admin: AnyModelAdmin
    action: str
    pks: Sequence[str]
    query: Mapping[str, Any]
    given: dict[str, Any]
    """The values that are not sent yet."""

    def result(self) -> Any:
        """Run the action, and fill in its page if it has one; raises ToolError."""
        data = MultiValueDict(
            {
                "action": [self.action],
                ACTION_CHECKBOX_NAME: [*map(str, self.pks)],
                "index": ["0"],
                "select_across": ["0"],
            }
        )
        # The fields beside the menu of actions, such as the format of an export.
        for name in self.model_admin.action_form.base_fields:
            if name in self.given and name not in ("action", "select_across"):
                data[name] = self.given.pop(name)
        visit = self._visit(data)
        html = _page_of(visit)
        if html is None:
            return self._done(visit)
        form = html_forms.of_page(html)
        if form is None:
            raise ToolError(f"Nothing was done. The page says: {html_forms.text_of_page(html)}")
        if urlsplit(form.action).path not in ("", visit.request.path):
            url = visit.request.build_absolute_uri(form.action)
            raise ToolError(f"The action goes on at a page that only a browser can show: {url}")
        if form.fields and not self.given:
            return {"done": False, "page": html_forms.described(form), "messages": visit.messages}
        return self._sent(form)

    def _sent(self, form: html_forms.HtmlForm) -> Any:
        data, files = form.sent(self.given, self.call.file)
        visit = self._visit(data, files)
        html = _page_of(visit)
        if html is None:
            return self._done(visit)
        for value in visit.context.values():
            if isinstance(value, forms.BaseForm) and value.errors:
                raise tool_error("The form is not valid.", error_lines(value))
        raise ToolError(f"The page was shown again. It says: {html_forms.text_of_page(html)}")

    def _visit(self, data: Any, files: Any = None) -> Visit:
        return self.call.visit(
            self.model_admin, "changelist_view", query=self.query, data=data, files=files
        )

    def _done(self, visit: Visit) -> Any:
        response: Any = visit.response
        if is_download(response):
            return download(response, visit.request)
        result: dict[str, Any] = {"done": True, "messages": visit.messages}
        location = response.headers.get("Location", "")
        if location and urlsplit(location).path != visit.request.path:
            result["open"] = visit.request.build_absolute_uri(location)
        return result


def _page_of(visit: Visit) -> str | None:
    """Return the HTML of a page; None for a redirect or a file."""
    response: Any = visit.response
    if response.status_code != 200 or is_download(response):
        return None
    if hasattr(response, "render") and not response.is_rendered:
        response.render()
    content_type = response.headers.get("Content-Type", "")
    is_page = content_type.startswith("text/html")
    return text_of(response, response.content) if is_page else None
