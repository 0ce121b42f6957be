"""The tools of an admin: a short list, whatever the number of its models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Concatenate, ParamSpec, TypeVar

from django.contrib.admin import ModelAdmin
from django.core.files.uploadedfile import UploadedFile
from pydantic import Field

from django_mcp.core.frame.frame import Frame
from django_mcp.modeladmin import (
    actions,
    calls,
    changes,
    descriptions,
    history,
    lists,
    requests,
)
from django_mcp.modeladmin.calls import Call, Page
from django_mcp.modeladmin.models import AnyModelAdmin, Models

P = ParamSpec("P")
R = TypeVar("R")

Label = Annotated[str, Field(description='"app_label.Model", as the list of models has it')]
Key = Annotated[str | int, Field(description="Primary key")]
Values = Annotated[
    dict[str, Any],
    Field(description="By field. A related object is given by its key or its label"),
]
Inlines = Annotated[
    dict[str, list[dict[str, Any]]],
    Field(
        description='By inline, a list of rows: {"pk": 3, "text": "new"} changes one, without pk '
        'it is added, {"pk": 3, "delete": true} deletes it; others stay'
    ),
]
FilterArgument = Annotated[
    dict[str, Any], Field(description="Parameters of filters, as describe_model lists them")
]
Files = Annotated[
    list[UploadedFile],  # type: ignore[type-arg] # Django's own is not a generic class.
    Field(max_length=20, description="A field of a file has a position in this list, from 0"),
]
Confirm = Annotated[str | None, Field(description="Of the preview that a first call returned")]


class HasAdminPermission:
    """The permission of the tools: whether the admin lets the caller in.

    At the call, the ModelAdmin decides by its permissions.
    """

    is_of_caller = True
    admits_anonymous = False

    def __init__(self, models: Models) -> None:
        self._models = models
        self.__module__ = type(models.site).__module__
        self.__qualname__ = f"{type(models.site).__qualname__}.has_permission"

    def __call__(self, frame: Frame) -> bool:
        request = requests.build(frame, frame.user, "/")
        return bool(self._models.site.has_permission(request))


class HasModelPermission(HasAdminPermission):
    """The permission of a tool of one model: whether the caller sees the model, and may use it so.

    A ModelAdmin that has permissions of objects refuses them at the call.
    """

    def __init__(self, models: Models, model_admin: AnyModelAdmin, tool: str) -> None:
        super().__init__(models)
        self._model_admin = model_admin
        self._hook = OF_ONE_MODEL[tool]
        # Django's own permissions are the same for all objects.
        kind: Any = type(model_admin)
        hooks = ("has_view_permission", "has_change_permission", "has_delete_permission")
        overrides = any(getattr(kind, hook) is not getattr(ModelAdmin, hook) for hook in hooks)
        self._may_differ = tool in OF_OBJECTS and overrides
        self.__module__ = type(model_admin).__module__
        self.__qualname__ = f"{type(model_admin).__qualname__}.{self._hook}"

    def __call__(self, frame: Frame) -> bool:
        request = requests.build(frame, frame.user, "/")
        if not self._models.site.has_permission(request):
            return False
        if not self._models.is_visible(request, self._model_admin):
            return False
        return self._may_differ or bool(getattr(self._model_admin, self._hook)(request))


@dataclass(frozen=True, slots=True)
class AdminTools:
    """The handlers of the tools of one admin."""

    models: Models
    asks: bool
    """Whether a client is asked before an object is deleted or an action is run."""

    def _run(
        self,
        frame: Frame,
        page: Page,
        function: Callable[Concatenate[Call, P], R],
        *arguments: P.args,
        **options: P.kwargs,
    ) -> R:
        call = Call(frame, self.models, frame.user, files=page.files)
        return calls.run(call, page, function, *arguments, **options)

    def list_models(self, frame: Frame) -> dict[str, Any]:
        """List the models of the site's admin, with your permissions for each."""
        return self._run(frame, Page(), descriptions.models)

    def describe_model(
        self,
        model: Label,
        frame: Frame,
        pk: Annotated[Key | None, Field(description="Describe the form of this object")] = None,
        facets: Annotated[bool, Field(description="Count the objects of each filter")] = False,
    ) -> dict[str, Any]:
        """Describe a model: columns, filters and search of its list, the fields and inlines of its
        form, and its actions. Without pk, it has the form of a new object."""
        page = Page("changelist", model) if pk is None else Page("change", model, pk)
        return self._run(frame, page, descriptions.model, model, _key(pk), facets)

    def search(
        self,
        model: Label,
        frame: Frame,
        text: Annotated[str, Field(description="Words of the admin's search")] = "",
        filters: FilterArgument = {},  # noqa: B006 - it is not changed.
        ordering: Annotated[
            list[str], Field(description='Names of columns, "-" for descending')
        ] = [],  # noqa: B006
        page: Annotated[int, Field(ge=1)] = 1,
        limit: Annotated[int | None, Field(ge=1, le=200, description="Rows of a page")] = None,
    ) -> dict[str, Any]:
        """Find objects of a model, as the list of the admin shows them."""
        arguments = (model, text, filters, ordering, page, limit)
        return self._run(frame, Page("changelist", model), lists.search, *arguments)

    def get(self, model: Label, pk: Key, frame: Frame) -> dict[str, Any]:
        """Return an object with its inlines, as its page in the admin shows it."""
        return self._run(frame, Page("change", model, pk), changes.get, model, str(pk))

    def history(
        self, model: Label, pk: Key, frame: Frame, page: Annotated[int, Field(ge=1)] = 1
    ) -> dict[str, Any]:
        """Return the changes of an object in the admin, with their times and users."""
        arguments = (model, str(pk), page)
        return self._run(frame, Page("history", model, pk), history.of_object, *arguments)

    def recent_actions(
        self, frame: Frame, limit: Annotated[int, Field(ge=1, le=100)] = 10
    ) -> dict[str, Any]:
        """Return your own last actions in the admin."""
        return self._run(frame, Page(), history.recent, limit)

    def autocomplete(
        self,
        model: Label,
        field: Annotated[str, Field(description='A field, or "inline.field"')],
        frame: Frame,
        text: str = "",
        pk: Annotated[Key | None, Field(description="For the form of this object")] = None,
        limit: Annotated[int, Field(ge=1, le=100)] = 20,
    ) -> dict[str, Any]:
        """Return the options of a field: keys and labels that match a text."""
        page = Page("add", model) if pk is None else Page("change", model, pk)
        arguments = (model, field, text, _key(pk), limit)
        return self._run(frame, page, lists.autocomplete, *arguments)

    def add(
        self,
        model: Label,
        values: Values,
        frame: Frame,
        inlines: Inlines = {},  # noqa: B006
        files: Files = [],  # noqa: B006
    ) -> dict[str, Any]:
        """Add an object through its form in the admin."""
        page = Page("add", model, is_sent=True, files=files)
        return self._run(frame, page, changes.add, model, values, inlines)

    def change(
        self,
        model: Label,
        pk: Key,
        frame: Frame,
        values: Values = {},  # noqa: B006
        inlines: Inlines = {},  # noqa: B006
        files: Files = [],  # noqa: B006
    ) -> dict[str, Any]:
        """Change an object through its form in the admin. Fields that are left out stay."""
        page = Page("change", model, pk, is_sent=True, files=files)
        arguments = (model, str(pk), values, inlines)
        return self._run(frame, page, changes.change, *arguments)

    def delete(
        self, model: Label, pk: Key, frame: Frame, confirm: Confirm = None
    ) -> dict[str, Any]:
        """Delete an object. The first call returns all that would be deleted, and confirm; the
        second call, with confirm, deletes. If the client can ask the user, one call does both."""
        page = Page("delete", model, pk, is_sent=True)
        return self._run(frame, page, changes.delete, model, str(pk), confirm, self.asks)

    def run_action(
        self,
        model: Label,
        action: Annotated[str, Field(description="Its name, as describe_model lists it")],
        pks: Annotated[list[str | int], Field(min_length=1, max_length=200)],
        frame: Frame,
        filters: FilterArgument = {},  # noqa: B006
        form: Annotated[
            dict[str, Any], Field(description="Values for the page that the action asks for")
        ] = {},  # noqa: B006
        confirm: Confirm = None,
        files: Files = [],  # noqa: B006
    ) -> Any:
        """Run an action of the admin on objects. The first call returns them, and confirm; the
        second call, with confirm, runs it. If it returns a page with fields, call again with form.
        """
        page = Page("changelist", model, is_sent=True, files=files)
        arguments = (model, action, [*map(str, pks)], filters, form, confirm, self.asks)
        return self._run(frame, page, actions.run, *arguments)


def _key(pk: str | int | None) -> str | None:
    return None if pk is None else str(pk)


READS: Mapping[str, Any] = {"read_only": True, "open_world": False}
ADDS: Mapping[str, Any] = {"read_only": False, "destructive": False, "open_world": False}
CHANGES: Mapping[str, Any] = {"read_only": False, "destructive": True, "open_world": False}
IN_TWO_STEPS: Mapping[str, Any] = {**CHANGES, "requests_input": True}

TOOLS: Mapping[str, Mapping[str, Any]] = {
    "list_models": READS,
    "describe_model": READS,
    "search": READS,
    "get": READS,
    "history": READS,
    "recent_actions": READS,
    "autocomplete": READS,
    "add": ADDS,
    "change": {**CHANGES, "idempotent": True},
    "delete": IN_TWO_STEPS,
    "run_action": IN_TWO_STEPS,
}
"""The tools by name, with their options."""


OF_ONE_MODEL: Mapping[str, str] = {
    "search": "has_view_or_change_permission",
    "get": "has_view_or_change_permission",
    "add": "has_add_permission",
    "change": "has_change_permission",
    "delete": "has_delete_permission",
    "run_action": "get_actions",
}
"""The tools that each model can have of its own, with the hook that says who sees them."""
OF_OBJECTS = ("get", "change", "delete")
