"""Arguments of Django's types: rows of a model, files, choices with their labels, datetimes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Annotated, Any, ClassVar
from uuid import UUID

from asgiref.sync import sync_to_async
from django.core.exceptions import FieldDoesNotExist, ObjectDoesNotExist, ValidationError
from django.core.files.uploadedfile import UploadedFile
from django.db.models import Choices, IntegerField, Model, QuerySet, UUIDField
from pydantic import Field as PydanticField
from pydantic import TypeAdapter
from pydantic_core import PydanticCustomError, core_schema

from django_mcp.core.components.arguments import (
    Adapter,
    Conversion,
    Deferred,
    FileLimits,
    Lookup,
)
from django_mcp.core.components.base import ConfigurationError
from django_mcp.core.protocol.limits import cut
from django_mcp.runtime.django_types import dates, uploads
from django_mcp.runtime.django_types.field_types import is_composite
from django_mcp.runtime.django_types.uploads import Uploads


@dataclass(frozen=True, slots=True)
class RowArgument(Deferred):
    """The row of a model by the value of a field, within the rows that the caller may use."""

    model: Any
    lookup: Lookup
    value: Any

    def get(self, frame: Any, stack: ExitStack) -> Model:
        """Return the row; raises DoesNotExist for an unknown one and for one of others alike."""
        try:
            row: Model = self._rows(frame).get(**{self.lookup.field: self._key()})
        except (self.model.DoesNotExist, ValueError, ValidationError):
            raise self._unknown() from None
        return row

    def _key(self) -> Any:
        """Return the value as the field has it; raises DoesNotExist for what no row can have."""
        try:
            key = _field(self.model, self.lookup.field).to_python(self.value)
        except (ValueError, ValidationError):
            raise self._unknown() from None
        if "\0" in str(key):  # Some databases refuse it.
            raise self._unknown()
        return key

    def get_several(
        self, others: Sequence[RowArgument], frame: Any, stack: ExitStack
    ) -> list[Model]:
        """Return the rows of ``others`` by one query; raises DoesNotExist like ``get``."""
        options = self.model._meta
        field = self.lookup.field
        # The column, since the key of a row that extends another one is a relation.
        name = (options.pk if field == "pk" else options.get_field(field)).attname
        keys = [other._key() for other in others]
        filtered = self._rows(frame).filter(**{f"{name}__in": keys})
        rows = {getattr(row, name): row for row in filtered}
        for other, key in zip(others, keys, strict=True):
            if key not in rows:
                raise other._unknown()
        return [rows[key] for key in keys]

    async def aget(self, frame: Any, stack: ExitStack) -> Model:
        """``get`` on the thread of the request."""
        return await sync_to_async(self.get)(frame, stack)

    async def aget_several(
        self, others: Sequence[RowArgument], frame: Any, stack: ExitStack
    ) -> list[Model]:
        """``get_several`` on the thread of the request."""
        return await sync_to_async(self.get_several)(others, frame, stack)

    def _unknown(self) -> ObjectDoesNotExist:
        named = f"{self.model._meta.verbose_name} {cut(str(self.value))}"
        error: ObjectDoesNotExist = self.model.DoesNotExist(f"There is no {named}")
        return error

    def _rows(self, frame: Any) -> QuerySet[Any, Any]:
        """Return the rows that the caller may use, without cached results."""
        rows = self.lookup.queryset
        if callable(rows):
            rows = rows(frame)
        if rows is None:
            rows = self.model._default_manager
        visible_rows: QuerySet[Any, Any] = rows.all()
        return visible_rows


class _ModelAdapter:
    """The metadata of a model class: it is listed as the type of its key."""

    defers: ClassVar[bool] = True

    def __init__(self, model: type[Model], lookup: Lookup) -> None:
        self._model = model
        self._lookup = lookup
        self._key = _key_type(_field(model, lookup.field))

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return core_schema.no_info_after_validator_function(
            self._row, TypeAdapter(self._key).core_schema
        )

    def _row(self, value: Any) -> RowArgument:
        return RowArgument(self._model, self._lookup, value)


def _field(model: type[Model], name: str) -> Any:
    if name == "pk":
        field: Any = model._meta.pk
    else:
        try:
            field = model._meta.get_field(name)
        except FieldDoesNotExist as error:
            raise ConfigurationError(f"A Lookup names {name!r}: {error}") from error
    if is_composite(field):
        raise ConfigurationError(
            f"The primary key of {model.__name__} has several columns: annotate a unique field of "
            f'it, as in Annotated[{model.__name__}, Lookup(field="code")]'
        )
    if not getattr(field, "unique", False):
        raise ConfigurationError(
            f"A Lookup names {model.__name__}.{name}, which is not unique: name a field of which "
            "no two rows have the same value"
        )
    while getattr(field, "remote_field", None) is not None:
        field = field.target_field  # The key of a row that extends another one.
    return field


def _key_type(field: Any) -> Any:
    if isinstance(field, IntegerField):
        return int
    if isinstance(field, UUIDField):
        return UUID
    return Annotated[str, PydanticField(max_length=getattr(field, "max_length", None) or 255)]


def _of_model(kind: type, metadata: Sequence[Any]) -> Any:
    if not issubclass(kind, Model) or kind._meta.abstract:
        return None
    declared = [each for each in metadata if isinstance(each, Lookup)]
    return _ModelAdapter(kind, declared[0] if declared else Lookup())


@dataclass(frozen=True, slots=True)
class FileArgument(Deferred):
    """A file that a host or a model has sent, which is received before the handler runs."""

    value: Mapping[str, str] = field(repr=False)
    limits: FileLimits

    def get(self, frame: Any, stack: ExitStack) -> UploadedFile[Any]:
        """Return the file; raises ToolError."""
        file: UploadedFile[Any] = self._receive(self.value, stack)()
        return file

    def get_several(
        self, others: Sequence[FileArgument], frame: Any, stack: ExitStack
    ) -> list[UploadedFile[Any]]:
        """Return the files of ``others``; raises ToolError."""
        files: list[UploadedFile[Any]] = self._receive([each.value for each in others], stack)()
        return files

    async def aget(self, frame: Any, stack: ExitStack) -> UploadedFile[Any]:
        """``get`` on a thread."""
        file: UploadedFile[Any] = await frame.exchange.run(self._receive(self.value, stack))
        return file

    async def aget_several(
        self, others: Sequence[FileArgument], frame: Any, stack: ExitStack
    ) -> list[UploadedFile[Any]]:
        """``get_several`` on a thread."""
        receive = self._receive([each.value for each in others], stack)
        files: list[UploadedFile[Any]] = await frame.exchange.run(receive)
        return files

    def _receive(self, value: Any, stack: ExitStack) -> Callable[[], Any]:
        """Return the function that receives a file, or a list of files, until the stack ends."""
        return partial(stack.enter_context(Uploads()).receive, "file", value, self.limits)


class _FileAdapter:
    """The metadata of an uploaded file: it is listed as the object that hosts send."""

    defers: ClassVar[bool] = True

    def __init__(self, limits: FileLimits) -> None:
        self._limits = limits

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        listed = uploads.schema()
        members = {
            name: core_schema.typed_dict_field(
                core_schema.str_schema(max_length=member["maxLength"]),
                required=name in listed["required"],
            )
            for name, member in listed["properties"].items()
        }
        value = core_schema.typed_dict_schema(members, extra_behavior="forbid")
        return core_schema.no_info_after_validator_function(self._argument, value)

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        return uploads.schema(self._limits)

    def _argument(self, value: dict[str, str]) -> FileArgument:
        return FileArgument(value, self._limits)


def _of_file(kind: type, metadata: Sequence[Any]) -> Any:
    if kind is not UploadedFile:
        return None
    declared = [each for each in metadata if isinstance(each, FileLimits)]
    return _FileAdapter(declared[0] if declared else FileLimits())


class _ChoicesAdapter:
    """The metadata of Choices: their labels are titles, in the language of each list."""

    def __init__(self, choices: type[Choices]) -> None:
        self._choices = choices

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        listed: dict[str, Any] = dict(handler.resolve_ref_schema(handler(schema)))
        listed.pop("title", None)
        values = listed.get("enum", [listed.get("const")])
        labels = {member.value: member.label for member in self._choices}
        if any(value not in labels for value in values):
            return listed
        described = [{"const": value, "title": labels[value]} for value in values]
        # ``enum`` is for the clients that do not read ``oneOf``.
        return {"type": listed["type"], "enum": values, "oneOf": described}


def _of_choices(kind: type, metadata: Sequence[Any]) -> Any:
    return _ChoicesAdapter(kind) if issubclass(kind, Choices) and len(kind) else None


def _to_site(value: datetime) -> datetime:
    try:
        return dates.to_site(value)
    except ValueError as error:
        raise PydanticCustomError("datetime", "Input should be a time with an offset") from error


ADAPTERS: tuple[Adapter, ...] = (_of_model, _of_file, _of_choices)
CONVERSIONS: Mapping[str, Conversion] = {"datetime": Conversion("after", _to_site)}
