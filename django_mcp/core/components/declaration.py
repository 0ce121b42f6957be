"""Declarations of components: a function, a class or an instance, and options."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import NoneType
from typing import Annotated, Any, Literal, NewType, Protocol, TypedDict, cast, get_args, get_origin
from weakref import WeakSet

from pydantic_core import to_json

from django_mcp.core.components import schemas
from django_mcp.core.components import signature as signatures
from django_mcp.core.components.base import (
    OPTIONS,
    ORDER_BOUND,
    USER_CHECKS,
    CacheHint,
    Completer,
    ConfigurationError,
    Description,
    Permission,
    Text,
    WhenDenied,
    check_names,
    checked_policy,
    explain,
    listed_icons,
    scope_names,
)
from django_mcp.core.components.schemas import InputSchema
from django_mcp.core.components.signature import CallConvention, Parameter, Signature
from django_mcp.core.ports import Port
from django_mcp.core.protocol import meta
from django_mcp.core.protocol.content import Icon
from django_mcp.core.protocol.errors import Json
from django_mcp.core.protocol.texts import is_text, json_fallback, similar

NAME = re.compile(r"[A-Za-z0-9_.\-]{1,128}")
"""The names of tools that clients accept (specification, server/tools, "Tool Names")."""

GROUP = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""The name of a group, which stands in a URL between commas."""


class PermissionClass(Protocol):
    """A permission class of REST framework."""

    def has_permission(self, request: Any, view: Any, /) -> Any: ...


class Options(TypedDict, total=False):
    """The options of every registration. None is the same as no option."""

    name: str | None
    title: Text | None
    description: Description | None
    meta: Json | None
    icons: Sequence[Icon | str | Json] | None
    permission: Permission | PermissionClass | type[PermissionClass] | None
    """``"app_label.codename"``, ``"login_required"``, ``"staff_member"``, ``"superuser"``, a
    function that takes the Frame, or a permission class of REST framework."""
    scopes: Iterable[str] | None
    """An access token needs all of them."""
    when_denied: WhenDenied | None
    """``"hidden"`` or ``"challenged"``; by default as the server, or "challenged" with scopes."""
    cache: CacheHint | None
    order: int | None
    """Smaller numbers are listed first; names decide among equals."""
    group: str | None
    """The group that selects it for a connection: ``/mcp?groups=tickets``."""
    requests_input: bool | None
    """Whether the handler requests input from the client; its writes before that are rolled back
    where the client sends the input by a retry."""
    complete: Mapping[str, Callable[..., Any] | Sequence[str]] | None
    """Functions that suggest values, by argument, or the values themselves."""


class ComponentAttributes:
    """The common attributes of ``Tool``, ``Resource``, ``ResourceTemplate`` and ``Prompt``.

    Each may be a value or a method without parameters. ``description`` as a method is called
    for every list, so it may change. One instance serves all calls: keep no state on it.
    """

    # Any: a subclass may override each with a value or with a method.
    name: Any = None
    title: Any = None
    description: Any = None
    meta: Any = None
    icons: Any = ()
    permission: Any = None
    scopes: Any = ()
    when_denied: Any = None
    cache: Any = None
    order: Any = 0
    group: Any = None
    requests_input: Any = False
    complete: Any = None


READ_BY = {
    "answer_within": "django_mcp",
    "app_only": "django_mcp",
    "approval": "django_mcp.contrib.approvals",
    "log_arguments": "django_mcp.contrib.call_log",
    "task_after": "django_mcp",
    "task_support": "django_mcp",
    "ui": "django_mcp",
}
"""The apps whose extensions read options that ``ToolOptions`` lists for type checkers."""


def unread(option: str) -> str:
    """The end of a message about an option of an extension that is not installed."""
    app = READ_BY.get(option, "the app of the extension")
    return (
        f'which no installed app reads: add "{app}" to INSTALLED_APPS, run migrate, and register '
        "components in the mcp modules of apps, which are imported when all apps are there"
    )


DECLARED: WeakSet[type[ComponentAttributes]] = WeakSet()
"""The classes that became components, for the check that finds forgotten ones."""

VIEW_PERMISSION: Port[Callable[[ViewPermission, Any], Any]] = Port("asks classes of permissions")
"""Asks a permission class of REST framework."""


@dataclass(frozen=True, slots=True)
class ViewPermission:
    """A permission class of REST framework as the permission of a component."""

    permission: Any
    """A class, an instance, or classes combined by operators."""
    component: str
    method: str

    def __call__(self, frame: Any) -> Any:
        return VIEW_PERMISSION.get()(self, frame)

    def __str__(self) -> str:
        return getattr(self.permission, "__name__", type(self.permission).__name__)


def asks_about_views(permission: Any) -> bool:
    """Whether it is a permission class of REST framework, or several combined by operators."""
    return hasattr(permission, "has_permission") or hasattr(permission, "operator_class")


@dataclass(frozen=True, slots=True)
class ComponentSource:
    """The handler to register, and where its attributes are declared."""

    function: Callable[..., Any]
    signature: Signature
    options: Mapping[str, Any]
    instance: ComponentAttributes | None
    default_name: str
    docstring: str
    module: str
    find_line: Callable[[], int]
    kind: str
    reads_only: bool
    """Whether components of this kind change nothing: all but tools."""

    @property
    def where(self) -> str:
        return self.signature.where

    def get(self, option: str) -> Any:
        """The option of the registration, else the attribute of the class, else None."""
        declared = self.raw(option)
        if not callable(declared):
            return declared
        # A class is a value, a pydantic model for instance; so is a type like list[float].
        is_type = isinstance(declared, type | NewType) or get_origin(declared) is not None
        return declared if is_type else declared()

    def raw(self, option: str) -> Any:
        """The option or attribute as it is declared: a function is not called."""
        given = self.options.get(option)
        return getattr(self.instance, option, None) if given is None else given

    def flag(self, option: str) -> bool | None:
        """An option that is True or False; raises ConfigurationError for anything else."""
        return cast("bool | None", self.checked(option, bool, "write True or False"))

    def checked(self, option: str, kind: type, remedy: str) -> Any:
        """An option of one type, or None; raises ConfigurationError with the remedy."""
        value = self.get(option)
        # A bool is an int, but no number of anything.
        is_one = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        if value is None or is_one:
            return value
        raise ConfigurationError(f"{option} of {self.where} is {value!r}: {remedy}")

    def input_model(self, option: str) -> Any:
        """The declared input: ``option``, else the class ``Input`` inside the class, else None."""
        declared = self.get(option)
        return getattr(self.instance, "Input", None) if declared is None else declared

    def read_input(
        self, declared: Any, otherwise: str, *, strict_numbers: bool = False
    ) -> tuple[InputSchema, CallConvention]:
        """The arguments and their call; ``otherwise`` says why it cannot take any keyword.

        With ``strict_numbers``, a string is not accepted as a number, as in JSON.
        """
        if declared is not None:
            call = signatures.by_value(self.function, self.signature)
            declared = schemas.input_of(declared, self.where, strict_numbers=strict_numbers)
            return declared, call
        if self.signature.has_var_keyword:
            raise ConfigurationError(f"{self.where} takes any keyword, but {otherwise}")
        call = signatures.by_keywords(self.function, self.signature)
        return schemas.input_of_signature(self.signature, strict_numbers=strict_numbers), call

    def common(self) -> dict[str, Any]:
        description = self.raw("description")
        signatures.check_text(description, f"The description of {self.where}")
        scopes = self.get("scopes") or ()
        options = self._options_of_extensions()
        return {
            "title": self.get("title"),
            "description": self.docstring if description is None else description,
            "icons": listed_icons(self.where, self.get("icons") or ()),
            "meta": self._meta(options),
            "options": options,
            "permission": self._permission(),
            "scopes": scope_names(self.where, scopes),
            "when_denied": checked_policy(self.where, self.get("when_denied")),
            "cache": self._cache(),
            "order": self._order(),
            "group": self._group(),
            "requests_input": bool(self.flag("requests_input")),
            "module": self.module,
            "find_line": self.find_line,
        }

    def name(self) -> str:
        """The name as declared, else the default; raises ConfigurationError for an invalid one."""
        name = self.get("name") or self.default_name
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise ConfigurationError(
                f"The name {name!r} of {self.where} cannot be used: give name=… of letters, "
                "digits and _ - . (at most 128)"
            )
        return name

    def completers(
        self, arguments: Iterable[str], parameters: Iterable[Parameter] = ()
    ) -> dict[str, Completer]:
        """The completers by argument: as declared, else for the values of a Literal or an Enum."""
        names = tuple(arguments)
        choices = {p.name: choices_of(p.annotation) for p in parameters if p.name in names}
        completers = {name: _choice_completer(values) for name, values in choices.items() if values}
        methods = {
            name.removeprefix("complete_"): getattr(self.instance, name)
            for name in (dir(self.instance) if self.instance else ())
            if name.startswith("complete_")
        }
        declared = self.checked("complete", Mapping, 'write {"argument": …}') or {}
        for argument, function in {**methods, **declared}.items():
            if argument not in names:
                raise ConfigurationError(
                    f"{self.where} completes {argument!r}, which is none of its arguments "
                    f"({', '.join(names) or 'it has none'})"
                )
            if isinstance(function, list | tuple):
                completers[argument] = _choice_completer(tuple(map(str, function)))
            elif callable(function):
                completers[argument] = completer(function)
            else:
                raise ConfigurationError(
                    f"{self.where} completes {argument!r} by {function!r}: give a list of values, "
                    "or a function that returns one"
                )
        return completers

    def _options_of_extensions(self) -> dict[str, Any]:
        """Raises ConfigurationError for an option of an extension that is not installed."""
        values: dict[str, Any] = {}
        installed = OPTIONS.of(self.kind)
        for name in {**installed, **READ_BY}:
            option = installed.get(name)
            may_be_method = option is not None and option.may_be_method
            value = self.get(name) if may_be_method else self.raw(name)
            if value is None:
                continue
            if option is None:
                raise ConfigurationError(f"{self.where} has {name}, {unread(name)}")
            read_value = option.read(value, self.where)
            if read_value is not None:
                values[name] = read_value
        return values

    def _meta(self, options: Mapping[str, Any]) -> Json | None:
        """The author's ``meta``, which overrides the options of extensions."""
        described: dict[str, Any] = {}
        for name, read_value in options.items():
            describe = OPTIONS.of(self.kind)[name].meta
            described |= {} if describe is None else describe(read_value)
        value: Json | None = self.get("meta")
        if value is None:
            return described or None
        if not isinstance(value, Mapping):
            raise ConfigurationError(f"The meta of {self.where} is {value!r}: give a dict")
        with explain(self.where):
            meta.check_keys(value)
        with explain(f"The meta of {self.where} is no JSON"):
            to_json(value, inf_nan_mode="null", fallback=_json_or_text)
        return {**described, **value} if described else value

    def _cache(self) -> CacheHint | None:
        value = self.get("cache")
        if value is None or isinstance(value, CacheHint):
            return value
        if isinstance(value, Mapping) and {*value} <= {"ttl_ms", "scope"} and "ttl_ms" in value:
            return CacheHint(**value)
        raise ConfigurationError(f"The cache of {self.where} is {value!r}: give a CacheHint")

    def _order(self) -> int:
        value = self.get("order")
        order = 0 if value is None else value
        if isinstance(order, int) and abs(order) < ORDER_BOUND:
            return order
        raise ConfigurationError(f"The order of {self.where} is {value!r}: give a smaller integer")

    def _group(self) -> str | None:
        group = self.get("group")
        if group is None or (isinstance(group, str) and GROUP.fullmatch(group)):
            return group
        raise ConfigurationError(
            f"The group of {self.where} is {group!r}: write a name of letters, digits, - and _ "
            "(at most 64)"
        )

    def _permission(self) -> Permission | None:
        permission = self.raw("permission")
        if asks_about_views(permission):
            declared = self.get("annotations")
            annotations = declared if isinstance(declared, Mapping) else {}
            is_annotated = annotations.get("readOnlyHint") is True
            is_read = self.reads_only or self.flag("read_only") or is_annotated
            return ViewPermission(permission, self.name(), "GET" if is_read else "POST")
        is_named = isinstance(permission, str) and ("." in permission or permission in USER_CHECKS)
        if callable(permission) and signatures.is_for_views(permission):
            # It would return a function, which is true for everybody.
            raise ConfigurationError(
                f"The permission of {self.where} is a decorator of views: write "
                f"{signatures.PERMISSIONS}"
            )
        if callable(permission):
            signatures.check_permission(permission, self.where)
        if permission is None or callable(permission) or is_named:
            return cast("Permission | None", permission)
        raise ConfigurationError(
            f"The permission of {self.where} is {permission!r}: write {signatures.PERMISSIONS}"
        )


def _json_or_text(value: Any) -> Any:
    """What JSON has instead of ``value``; a lazy translation has no language yet."""
    return "" if is_text(value) else json_fallback(value)


def read(
    target: Any, base: type[ComponentAttributes], method: str, options: Any, declared_options: Any
) -> ComponentSource:
    """Read ``target``: a function, or a class or instance of ``base`` with ``method``."""
    kind = snake_case(base.__name__)
    possible_options = declared_options.__optional_keys__ | OPTIONS.of(kind).keys()
    if unknown := sorted(options.keys() - possible_options):
        possible = ", ".join(sorted(possible_options))
        near = similar(unknown[0], possible_options)
        question = f" Did you mean {near!r}?" if near else ""
        raise ConfigurationError(
            f"There is no option {unknown[0]!r}: there are {possible}.{question}"
        )
    _check_target(target, base)
    if isinstance(target, type):
        target = _instance(target, base)
    instance = target if isinstance(target, base) else None
    if instance is not None:
        DECLARED.add(type(instance))
        _check_names(type(instance), base, method, possible_options)
    function = target if instance is None else getattr(target, method, None)
    if instance is not None and not callable(function):
        raise ConfigurationError(f"{type(target).__qualname__} has no method {method}: write one")
    if not callable(function):
        raise ConfigurationError(
            f"{target!r} is no component: give a function, or a class derived from {base.__name__}"
        )
    declared: Any = signatures.underlying(function) if instance is None else type(target)
    # Its own docstring: ``inspect.getdoc`` also reads the base class.
    signature, docstring = signatures.documented(
        signatures.read(function), declared.__doc__ or "", function.__doc__ or ""
    )
    return ComponentSource(
        function=function,
        signature=signature,
        options=options,
        instance=instance,
        default_name=_default_name(target),
        docstring=docstring,
        module=declared.__module__,
        find_line=functools.partial(line_of, declared),
        kind=kind,
        reads_only=not hasattr(base, "read_only"),
    )


def _check_names(
    kind: type, base: type[ComponentAttributes], method: str, options: Iterable[str]
) -> None:
    completers = [name for name in dir(kind) if name.startswith("complete_")]
    elsewhere = dict(ELSEWHERE)
    if not hasattr(kind, method):
        elsewhere |= dict.fromkeys(METHODS_ELSEWHERE, f"the method {method!r}")
    # Functions that an attribute names: {"sku": suggest_sku}.
    used = [*(getattr(kind, "complete", None) or {}).values()]
    also_known = {*completers, *options, method, "Input", "annotations"}
    check_names(kind, base, is_strict=False, also_known=also_known, used=used, elsewhere=elsewhere)


ELSEWHERE = {
    "permission_classes": "'permission'",
    "permissions": "'permission'",
    "has_permission": "'permission'",
    "check_permission": "'permission'",
    "authorize": "'permission'",
    "login_required": 'permission = "login_required"',
    "Meta": "its attributes in the class itself",
}
"""What other packages call the options of a component."""
METHODS_ELSEWHERE = ("run", "call", "handle", "invoke")
"""What other packages call the method that answers."""


def _check_target(target: Any, base: type[ComponentAttributes]) -> None:
    kind = base.__name__.lower()
    if signatures.is_proxy(target):
        raise ConfigurationError(
            f"{type(target).__module__}.{type(target).__qualname__} stands for another object, as "
            "a task of Celery does until its app is ready: register a function that calls it, with "
            ".delay(…) to run a task on a worker"
        )
    if isinstance(target, str):
        raise ConfigurationError(
            f"{target!r} is no component: give a function; a name is given as @{kind}(name=…)"
        )


def completer(function: Callable[..., Any]) -> Completer:
    """The completer for a function ``(value)`` or ``(value, arguments)``."""
    signature = signatures.read(function)
    if not 1 <= len(signature.parameters) <= 2 or signature.has_var_keyword:
        raise ConfigurationError(
            f"{signature.where} completes an argument: let it take (value) or (value, arguments), "
            "and optionally the Frame"
        )
    return Completer(function, signatures.is_async(function), signature.names, signature.frame)


def _instance(target: type, base: type[ComponentAttributes]) -> ComponentAttributes:
    if not issubclass(target, base):
        raise ConfigurationError(
            f"{target.__qualname__} is a class of another kind: derive it from {base.__name__}"
        )
    try:
        return target()
    except TypeError as error:
        raise ConfigurationError(
            f"{target.__qualname__} cannot be instantiated without arguments ({error}): "
            "register an instance of it"
        ) from error


def _default_name(target: Any) -> str:
    while isinstance(target, functools.partial):
        target = target.func
    if inspect.isroutine(target):
        return target.__name__
    return snake_case(type(target).__name__)


def snake_case(name: str) -> str:
    """The name of a class as the name of a component: HTTPStatus becomes http_status."""
    boundary = r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])"
    return re.sub(boundary, "_", name).lower()


def line_of(declared: Any) -> int:
    """The line of a function or a class in its module; 0 if it has no source."""
    code = getattr(inspect.unwrap(declared), "__code__", None)
    if code is not None:
        return int(code.co_firstlineno)
    try:
        return inspect.getsourcelines(declared)[1]
    except (OSError, TypeError):
        return 0


def choices_of(annotation: Any) -> tuple[str, ...]:
    """The values of a Literal or an Enum, as strings; none for any other annotation.

    A description, or None beside them, changes nothing.
    """
    origin = get_origin(annotation)
    members = get_args(annotation)
    if origin is Annotated:
        return choices_of(members[0])
    if origin in signatures.UNIONS:
        of_members = [choices_of(member) for member in members if member is not NoneType]
        return sum(of_members, ()) if all(of_members) else ()
    if origin is Literal:
        values = (each.value if isinstance(each, Enum) else each for each in members)
        return tuple(str(value) for value in values if value is not None)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return tuple(str(member.value) for member in annotation)
    return ()


def _choice_completer(values: tuple[str, ...]) -> Completer:
    def choose(value: str) -> list[str]:
        typed = value.casefold()
        return [each for each in values if each.casefold().startswith(typed)]

    return Completer(choose, is_async=False, names=("value",), frame=None)
