"""Declaring types of events: ``event``, and the component that clients are listed.

An event of a class describes an object to each subscriber, when it is delivered: the object is read
through ``get_queryset`` with the rights of the subscriber. An event without a class has a payload,
which is stored when it is emitted and is the same for everybody who may use the event.

This module imports no models, so that apps can declare events at any time.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType, SimpleNamespace, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from django.db import router
from django.db.models import JSONField, Model
from pydantic import BaseModel, ConfigDict, TypeAdapter, create_model

from django_mcp import ConfigurationError, Frame, InvalidParams, Server
from django_mcp.core.components import schemas, serializers
from django_mcp.core.components.base import (
    Permission,
    UnserializableResult,
    listed,
    scope_names,
)
from django_mcp.core.components.invalid_arguments import InvalidArguments
from django_mcp.core.components.signature import check_call
from django_mcp.core.protocol.errors import Json
from django_mcp.core.server.server import checked_server
from django_mcp.extensions import Component
from django_mcp.runtime import signing

if TYPE_CHECKING:
    import typing_extensions

    ValueT = typing_extensions.TypeVar("ValueT", default=Any)
else:  # A TypeVar has a default from Python 3.13 on.
    ValueT = TypeVar("ValueT")

On = Literal["saved", "created", "deleted"]
KIND = "event"
TABLE = "event_occurrence"
"""The name for the encryption of fields of deleted objects."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]*")
MAX_NAME = 200
DELIVERIES = ("poll", "push", "webhook")
ONS = ("saved", "created", "deleted")
METHODS: Mapping[str, Sequence[str]] = {
    "payload": ("instance", "frame"),
    "get_queryset": ("frame",),
    "matches": ("instance",),
    "may_receive": ("instance", "frame"),
}
"""The methods that the class of an event may define, and what they are called with."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EventComponent(Component):
    """A type of events as clients know it."""

    kind: ClassVar[str] = KIND
    event: Event[Any]
    delivery: tuple[str, ...]
    input_schema: Json
    payload_schema: Json

    def descriptor(self) -> dict[str, Any]:
        return self._describe(
            description=self.listed_description,
            delivery=[*self.delivery],
            inputSchema=self.input_schema,
            payloadSchema=self.payload_schema,
        )


class Event(Generic[ValueT]):
    """A type of events. ``event`` makes one; a class completes it as a decorator.

    ``emit`` reports that it has happened, from anywhere in the project. ``ValueT`` is its model, or
    the type of its payload.
    """

    def __init__(self, name: str, **options: Any) -> None:
        if not NAME.fullmatch(name) or len(name) > MAX_NAME:
            raise ConfigurationError(
                f'The event {name!r} needs a name of letters, digits, ".", "_", ":", "/" and "-", '
                f'of at most {MAX_NAME} characters, such as "order.paid"'
            )
        self.name = name
        self.model = options["model"]
        self.on: On | None = options["on"]
        self.when: Callable[[Any], bool] | None = options["when"]
        self.server: Server | None = options["server"]
        if self.server is not None:
            checked_server(self.server, f"the event {name!r}")
        self._options = options
        self._class: type | None = None
        self._matches: Callable[..., bool] | None = options["matches"]
        caller = inspect.stack()[2]
        self._module = caller.frame.f_globals.get("__name__", "")
        self._line = caller.lineno
        self._check()
        self._adapter: TypeAdapter[Any] | None = None
        if options["payload"] is not None:
            if self.model is not None:
                raise self._wrong("has a model and a payload: write a class with payload()")
            self._complete(options["payload"], options["arguments"])

    def _wrong(self, problem: str) -> ConfigurationError:
        return ConfigurationError(f"The event {self.name!r} at {self.source} {problem}")

    @property
    def source(self) -> str:
        return f"{self._module}:{self._line}"

    def _check(self) -> None:
        model = self.model
        if model is not None and not (isinstance(model, type) and issubclass(model, Model)):
            raise self._wrong(
                f"has the model {self.model!r}: give a class of Django's models. Where its module "
                "cannot be imported, django.apps.apps.get_model() returns it"
            )
        if self.on is not None and self.on not in ONS:
            raise self._wrong(f"has on={self.on!r}: there are {', '.join(ONS)}, and None")
        if self.when is not None and self.on != "saved":
            raise self._wrong('has when=…, which is for on="saved"')
        if self.when is not None:
            remedy = "let it take the object alone, such as lambda order: order.is_paid"
            self._check_call(self.when, "when", ("the object alone",), remedy)
        if self._matches is not None:
            given = ("the arguments", "the payload", "the Frame")
            remedy = "let it take (arguments, payload, frame)"
            self._check_call(self._matches, "matches", given, remedy)
        unknown = {*self._options["delivery"]} - {*DELIVERIES}
        if unknown or not self._options["delivery"]:
            raise self._wrong(f"has the delivery {sorted(unknown)}: there are {DELIVERIES}")

    def _check_call(self, function: Any, name: str, given: Sequence[str], remedy: str) -> None:
        """Raise ConfigurationError for a function that cannot be called as it will be."""
        what = f"{name} of the event {self.name!r} at {self.source}"
        check_call(function, what, *given, remedy=remedy, must_be_sync=True)

    def _check_methods(self, declared: Any) -> None:
        """Raise ConfigurationError for a class, or methods, that cannot be called."""
        remedy = "leave its parameters out, as each subscription makes an instance"
        self._check_call(declared, f"The class {declared.__qualname__}", (), remedy)
        for name, given in METHODS.items():
            if getattr(declared, name, None) is not None:
                # A bound method, without running __init__ of the author.
                method = getattr(declared.__new__(declared), name)
                self._check_call(method, name, given, f"write {name}(self, {', '.join(given)})")

    def __call__(self, declared: type) -> Event[ValueT]:
        """Complete the event with a class, as its decorator."""
        if self._adapter is not None or self._class is not None:
            raise self._wrong("has a payload already: it takes no class")
        names = {name for name, value in vars(declared).items() if inspect.isfunction(value)}
        unknown = {name for name in names if not name.startswith("_")} - {*METHODS}
        if unknown:
            raise self._wrong(f"has {', '.join(sorted(unknown))}: a class has {(*METHODS,)}")
        if not hasattr(declared, "payload"):
            raise self._wrong("has a class without payload(self, instance, frame)")
        self._check_methods(declared)
        if self.model is None:
            raise self._wrong("has a class: give its model=…, or payload=… instead of a class")
        if self.on == "deleted" and not hasattr(declared, "may_receive"):
            raise self._wrong(
                "is of deleted objects, which no queryset has: define may_receive(self, instance, "
                "frame), which says who may learn of one"
            )
        self._class = declared
        hints = get_type_hints(declared.payload)
        returned = hints.get("return")
        if returned in (None, NoneType):
            raise self._wrong("has payload() without the type that it returns")
        self._complete(_without_none(returned), self._arguments_of(declared))
        return self

    def _arguments_of(self, declared: type) -> type[BaseModel]:
        options = self.model._meta
        if len(options.pk_fields) > 1:
            raise self._wrong("has a model whose primary key has several columns: give payload=…")
        fields: dict[str, Any] = {
            name: (hint, getattr(declared, name, ...))
            for name, hint in get_type_hints(declared, include_extras=True).items()
            if not name.startswith("_")
        }
        if not hasattr(declared, "matches"):
            # A relation to many rows has no value to compare.
            field_names = {field.name for field in options.concrete_fields} | {"pk"}
            for name in fields.keys() - field_names:
                raise self._wrong(
                    f"has the argument {name!r}, which is no field of {self.model.__name__}: "
                    "define matches(self, instance), which compares it"
                )
        forbid = ConfigDict(extra="forbid")
        made: type[BaseModel] = create_model(declared.__name__, __config__=forbid, **fields)
        return made

    def _complete(self, payload: Any, arguments: type[BaseModel] | None) -> None:
        self._adapter = TypeAdapter(payload)
        self.payload_schema = self._adapter.json_schema(mode="serialization")
        if self.payload_schema.get("type") != "object" and "$ref" not in self.payload_schema:
            raise self._wrong("has a payload that is no object: give a pydantic model")
        self._arguments = arguments
        if arguments is not None and self._class is None and self._matches is None:
            unknown = arguments.model_fields.keys() - self.payload_schema.get("properties", {})
            if unknown:
                raise self._wrong(
                    f"has the arguments {', '.join(sorted(unknown))}, which the payload lacks: "
                    "give matches=…, a function of the arguments, the payload and the Frame"
                )
        empty: Json = {"type": "object", "properties": {}, "additionalProperties": False}
        self._input = schemas.input_of(arguments or empty, f"the event {self.name}")

    @property
    def is_complete(self) -> bool:
        return self._adapter is not None

    def __mcp_register__(self, server: Server) -> None:
        """Register the event on its server, by default the default one."""
        if not self.is_complete:
            raise self._wrong("has neither a payload nor a class")
        self.server = self.server or server
        self.server.components.add(self._component())
        if self.model is not None and self.on is not None:
            from django_mcp.contrib.events import model_changes

            model_changes.observe(self)

    def _component(self) -> EventComponent:
        options = self._options
        permission: Permission | None = options["permission"]
        if permission is None and self.model is not None:
            label = self.model._meta
            permission = f"{label.app_label}.view_{label.model_name}"
        docstring = inspect.getdoc(self._class) if self._class else None
        return EventComponent(
            name=self.name,
            title=options["title"],
            description=options["description"] or docstring or "",
            permission=permission,
            scopes=scope_names(f"The event {self.name}", options["scopes"]),
            when_denied=options["when_denied"],
            group=options["group"],
            order=options["order"],
            meta=options["meta"],
            module=self._module,
            find_line=lambda: self._line,
            event=self,
            delivery=tuple(name for name in DELIVERIES if name in options["delivery"]),
            input_schema=self._input.schema,
            payload_schema=self.payload_schema,
        )

    # Emission.

    def emit(
        self,
        value: ValueT | Mapping[str, Any],
        *,
        id: str | None = None,
        using: str | None = None,
    ) -> str | None:
        """Report that the event has happened, in the open transaction; return the id.

        ``value`` is the object of an event with a model, or the payload: an instance of its type, a
        dict, or an object with its attributes. Repetitions of one occurrence have the same ``id``.
        ``using`` is the database of the transaction. If nobody listens, nothing is written, and
        None is returned.
        """
        from django_mcp.contrib.events import outbox

        return outbox.emit(self, value, event_id=id, using=using)

    def dump(self, value: Any) -> dict[str, Any]:
        """Return a payload as JSON; raises ValueError for one that does not match its schema.

        Other values that JSON lacks, such as NaN or half of a surrogate pair, raise it as well.
        """
        assert self._adapter is not None
        validated = self._adapter.validate_python(value, from_attributes=True)
        dumped = self._adapter.dump_python(validated, mode="json", by_alias=True)
        if not isinstance(dumped, dict):
            raise ValueError(f"The payload of the event {self.name} is no object")
        try:
            plain: dict[str, Any] = serializers.jsonable(dumped)
        except UnserializableResult as error:
            raise ValueError(f"The payload of the event {self.name} is no JSON: {error}") from error
        return plain

    def store(self, instance: Any, event_id: str) -> str:
        """Return the fields of an object that is deleted, encrypted; ``restore`` reads them."""
        values = {}
        for field in instance._meta.concrete_fields:
            # An object may have the text of a date, which is none before it is read again.
            value = field.to_python(field.value_from_object(instance))
            holder = SimpleNamespace(**{field.attname: value})
            stored = None if value is None else field.value_to_string(holder)
            if isinstance(field, JSONField):  # A value that only its encoder may know.
                stored = json.loads(json.dumps(stored, cls=field.encoder))
            values[field.attname] = stored
        return signing.encrypt(TABLE, event_id, "data", values)

    def restore(self, stored: str, event_id: str) -> Any:
        """Return an object that was deleted; raises ValueError for a row that was changed."""
        values = signing.decrypt(TABLE, event_id, "data", stored)
        fields = {
            field.attname: getattr(field, "output_field", field)
            for field in self.model._meta.concrete_fields
        }
        return self.model(
            **{
                name: None if value is None else fields[name].to_python(value)
                for name, value in values.items()
                if name in fields
            }
        )

    # The occurrence for a subscriber.

    def read_arguments(self, arguments: Json) -> Any:
        """Return the valid arguments of a subscription; raises InvalidParams."""
        validate = self._input.validate_large or self._input.validate
        try:
            return validate(dict(arguments))
        except InvalidArguments as error:
            raise InvalidParams(f"Invalid arguments: {error}") from error

    def of_payload(self, arguments: Any, data: dict[str, Any], frame: Frame) -> Any:
        """Return a stored payload, or None where the subscription is not for it."""
        if self._matches is not None:
            return data if self._matches(arguments, data, frame) else None
        wanted = arguments.model_dump(mode="json") if isinstance(arguments, BaseModel) else {}
        is_wanted = all(value is None or data.get(name) == value for name, value in wanted.items())
        return data if is_wanted else None

    def subscription(self, arguments: Any) -> Any:
        """Return an instance of the class with the arguments of a subscription."""
        assert self._class is not None
        instance = self._class()
        if isinstance(arguments, BaseModel):
            for name in type(arguments).model_fields:
                setattr(instance, name, getattr(arguments, name))
        return instance

    def rows(self, subscription: Any, frame: Frame, keys: Sequence[str]) -> dict[str, Any]:
        """Return the objects with these keys that a subscriber may see, by key."""
        get_queryset = getattr(subscription, "get_queryset", None)
        rows = self.model._default_manager.all() if get_queryset is None else get_queryset(frame)
        if rows.db == router.db_for_read(rows.model):
            # A replica may not have the change yet.
            rows = rows.using(router.db_for_write(rows.model))
        return {str(row.pk): row for row in rows.filter(pk__in=keys)}

    def of_instance(self, subscription: Any, instance: Any, frame: Frame) -> Any:
        """Return the payload of an object, or None where the subscription is not for it."""
        may_receive = getattr(subscription, "may_receive", None)
        if may_receive is not None and not may_receive(instance, frame):
            return None
        matches = getattr(subscription, "matches", None)
        is_wanted = matches(instance) if matches else _has_values(instance, vars(subscription))
        if not is_wanted:
            return None
        payload = subscription.payload(instance, frame)
        return None if payload is None else self.dump(payload)


def _has_values(instance: Any, wanted: Mapping[str, Any]) -> bool:
    """Whether an object has these values; None is any value, and a relation is its key."""
    for name, value in wanted.items():
        if value is None:
            continue
        field = None if name == "pk" else instance._meta.get_field(name)
        if getattr(instance, getattr(field, "attname", name)) != value:
            return False
    return True


def _without_none(hint: Any) -> Any:
    if get_origin(hint) in (Union, UnionType):
        kept = [part for part in get_args(hint) if part is not NoneType]
        if len(kept) == 1:
            return kept[0]
    return hint


def event(
    name: str,
    *,
    payload: type[ValueT] | None = None,
    model: type[ValueT] | None = None,
    on: On | None = "saved",
    when: Callable[[ValueT], bool] | None = None,
    arguments: type[BaseModel] | None = None,
    matches: Callable[[Any, dict[str, Any], Frame], bool] | None = None,
    permission: Permission | None = None,
    scopes: str | Iterable[str] = (),
    when_denied: Literal["hidden", "challenged"] | None = None,
    group: str | None = None,
    delivery: Sequence[str] = DELIVERIES,
    title: Any = None,
    description: Any = "",
    order: int = 0,
    meta: Json | None = None,
    server: Server | None = None,
) -> Event[ValueT]:
    """Declare a type of events: with ``payload``, or as the decorator of a class with a ``model``.

    ``on`` is the change of the model that emits it; None: only ``emit`` does. The event happens
    when a save makes ``when`` true. Without ``permission``, an event with a model needs the
    permission to view it. ``arguments`` of an event without a class are a pydantic model: its
    fields are compared with the payload, or passed to ``matches``.
    """
    return Event(
        name,
        payload=payload,
        model=model,
        on=on,
        when=when,
        arguments=arguments,
        matches=matches,
        permission=permission,
        scopes=scopes,
        when_denied=when_denied,
        group=group,
        delivery=listed("delivery", delivery),
        title=title,
        description=description,
        order=order,
        meta=meta,
        server=server,
    )
