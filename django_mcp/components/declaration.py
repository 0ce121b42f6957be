"""Reading a declaration: a function, a class or an instance, and the options of a registration.

An option of the registration overrides an attribute of the class. An attribute may be a value or a
method without parameters.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, TypedDict, get_args, get_origin

from django_mcp.components import signature as signatures
from django_mcp.components.base import (
    ORDER_BOUND,
    CacheHint,
    Completer,
    ConfigurationError,
    Description,
    Permission,
    Text,
)
from django_mcp.components.signature import Signature
from django_mcp.protocol import meta
from django_mcp.protocol.content import Annotations, Icon
from django_mcp.protocol.errors import Json

NAME = re.compile(r"[A-Za-z0-9_.\-]{1,128}")
"""What a client accepts as the name of a tool (specification, server/tools, "Tool Names")."""


class Options(TypedDict, total=False):
    """The options of every registration. None is the same as no option."""

    name: str | None
    title: Text | None
    description: Description | None
    """A function without parameters is called for every list."""
    meta: Json | None
    icons: Sequence[Icon | str | Json] | None
    permission: Permission | None
    """``"app_label.codename"``, or a function that takes the Frame."""
    scopes: Iterable[str] | None
    """An access token needs all of them."""
    cache: CacheHint | None
    order: int | None
    """Smaller numbers are listed first; names decide among equals."""
    requests_input: bool | None
    """Whether the handler requests input from the client; its writes before that are rolled back
    where the client sends the input by a retry."""
    complete: Mapping[str, Callable[..., Any]] | None
    """Functions that suggest values, by argument."""


class ComponentAttributes:
    """The common attributes of ``Tool``, ``Resource``, ``ResourceTemplate`` and ``Prompt``.

    Each may be a value or a method without parameters. ``description`` as a method is called
    for every list, so it may change. One instance serves all calls: keep no state on it.
    """

    # Any: a subclass may override each with a value or with a method.
    name: Any = None
    title: Any = None
    description: Any = None
    annotations: Any = None
    meta: Any = None
    icons: Any = ()
    permission: Any = None
    scopes: Any = ()
    cache: Any = None
    order: Any = 0
    requests_input: Any = False
    complete: Any = None


@dataclass(frozen=True, slots=True)
class ComponentSource:
    """The handler to register, and where its attributes are declared."""

    function: Callable[..., Any]
    options: Mapping[str, Any]
    instance: ComponentAttributes | None
    default_name: str
    docstring: str
    module: str
    find_line: Callable[[], int]

    @property
    def where(self) -> str:
        """The name of the handler in error messages."""
        return signatures.name_of(self.function)

    def get(self, option: str) -> Any:
        """The option of the registration, else the attribute of the class, else None."""
        declared = self._raw(option)
        # A class is a value here, a pydantic model for instance.
        return declared() if callable(declared) and not isinstance(declared, type) else declared

    def _raw(self, option: str) -> Any:
        given = self.options.get(option)
        return getattr(self.instance, option, None) if given is None else given

    def input_model(self, option: str) -> Any:
        """The declared input: ``option``, else the class ``Input`` inside the class, else None."""
        declared = self.get(option)
        return getattr(self.instance, "Input", None) if declared is None else declared

    def signature(self) -> Signature:
        """The signature of the handler."""
        return signatures.read(self.function)

    def common(self) -> dict[str, Any]:
        """The fields of Component that every kind declares alike."""
        return {
            "title": self.get("title"),
            "description": self._description(),
            "icons": self._icons(),
            "meta": _meta(self.get("meta"), self.where),
            "permission": self._permission(),
            "scopes": _scopes(self.get("scopes")),
            "cache": _cache(self.get("cache"), self.where),
            "order": _order(self.get("order"), self.where),
            "requests_input": bool(self.get("requests_input")),
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
        self, arguments: Iterable[str], signature: Signature | None
    ) -> dict[str, Completer]:
        """The completers by argument: as declared, else for the values of a Literal or an Enum."""
        known = tuple(arguments)
        choices = {} if signature is None else _choice_completers(signature)
        found = {argument: choose for argument, choose in choices.items() if argument in known}
        for argument, function in self._declared_completers().items():
            if argument not in known:
                raise ConfigurationError(
                    f"{self.where} completes {argument!r}, which is none of its arguments "
                    f"({', '.join(known) or 'it has none'})"
                )
            found[argument] = completer(function)
        return found

    def _declared_completers(self) -> dict[str, Callable[..., Any]]:
        methods = {
            name.removeprefix("complete_"): getattr(self.instance, name)
            for name in (dir(self.instance) if self.instance else ())
            if name.startswith("complete_")
        }
        return {**methods, **(self.get("complete") or {})}

    def _description(self) -> Description:
        description: Description | None = self._raw("description")
        return self.docstring if description is None else description

    def _icons(self) -> tuple[Json, ...]:
        try:
            return tuple(Icon.of(icon).to_protocol() for icon in self.get("icons") or ())
        except ValueError as error:
            raise ConfigurationError(f"{self.where}: {error}") from error

    def _permission(self) -> Permission | None:
        permission: Permission | None = self._raw("permission")
        if permission is None or callable(permission) or _is_codename(permission):
            return permission
        raise ConfigurationError(
            f'The permission of {self.where} is {permission!r}: write "app_label.codename", or '
            "a function that takes the Frame"
        )


RENAMED = {"asks": "requests_input"}
"""Options by their former names."""


def read(
    target: Any, base: type[ComponentAttributes], method: str, options: Any, known: Any
) -> ComponentSource:
    """Read ``target``: a function, or a class or instance of ``base`` with ``method``.

    ``known`` is the TypedDict of the possible options.
    """
    if unknown := sorted(options.keys() - known.__optional_keys__):
        if unknown[0] in RENAMED:
            raise ConfigurationError(f"The option {unknown[0]!r} is now {RENAMED[unknown[0]]!r}")
        possible = ", ".join(sorted(known.__optional_keys__))
        raise ConfigurationError(f"There is no option {unknown[0]!r}: there are {possible}")
    if isinstance(target, type):
        target = _instance(target, base)
    if isinstance(target, base):
        return _read_instance(target, method, options)
    if not callable(target):
        raise ConfigurationError(
            f"{target!r} is no component: give a function, or a class derived from {base.__name__}"
        )
    inner = signatures.underlying(target)
    return ComponentSource(
        function=target,
        options=options,
        instance=None,
        default_name=_function_name(target),
        docstring=_docstring(target if inspect.isroutine(target) else inner),
        module=inner.__module__,
        find_line=functools.partial(_line, inner),
    )


def completer(function: Callable[..., Any]) -> Completer:
    """The completer for a function ``(value)`` or ``(value, arguments)``."""
    signature = signatures.read(function)
    if not 1 <= len(signature.parameters) <= 2 or signature.has_var_keyword:
        raise ConfigurationError(
            f"{signature.where} completes an argument: let it take (value) or (value, arguments), "
            "and optionally the Frame"
        )
    return Completer(
        function=function,
        is_async=signatures.is_async(function),
        names=signature.names,
        frame=signature.frame,
    )


def snake_case(name: str) -> str:
    """``HTTPStatus`` → ``http_status``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def content_annotations(value: Any, where: str) -> dict[str, Any] | None:
    """Annotations of a resource; raises ConfigurationError for invalid ones."""
    if value is None:
        return None
    try:
        return Annotations.of(value).to_protocol()
    except ValueError as error:
        raise ConfigurationError(f"{where}: {error}") from error


# Classes and functions.


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


def _read_instance(
    instance: ComponentAttributes, method: str, options: Mapping[str, Any]
) -> ComponentSource:
    kind = type(instance)
    function = getattr(instance, method, None)
    if not callable(function):
        raise ConfigurationError(f"{kind.__qualname__} has no method {method}: write one")
    return ComponentSource(
        function=function,
        options=options,
        instance=instance,
        default_name=snake_case(kind.__name__),
        docstring=_docstring(kind),
        module=kind.__module__,
        find_line=functools.partial(_line, kind),
    )


def _function_name(target: Any) -> str:
    inner = target
    while isinstance(inner, functools.partial):
        inner = inner.func
    return inner.__name__ if inspect.isroutine(inner) else snake_case(type(inner).__name__)


def _docstring(documented: Any) -> str:
    # Its own, never an inherited one, which describes the base class.
    docstring = (
        vars(documented).get("__doc__") if isinstance(documented, type) else documented.__doc__
    )
    return inspect.cleandoc(docstring or "")


def _line(declared: Any) -> int:
    code = getattr(inspect.unwrap(declared), "__code__", None)
    if code is not None:
        return int(code.co_firstlineno)
    try:
        return inspect.getsourcelines(declared)[1]
    except (OSError, TypeError):
        return 0


# Values of options.


def _meta(value: Any, where: str) -> Json | None:
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"The meta of {where} is {value!r}: give a dict")
    try:
        meta.check_keys(value)
    except ValueError as error:
        raise ConfigurationError(f"{where}: {error}") from error
    return value


def _is_codename(permission: Any) -> bool:
    return isinstance(permission, str) and "." in permission


def _scopes(value: Any) -> frozenset[str]:
    return frozenset(value.split() if isinstance(value, str) else value or ())


def _cache(value: Any, where: str) -> CacheHint | None:
    if value is None or isinstance(value, CacheHint):
        return value
    if isinstance(value, Mapping):
        return CacheHint(**value)
    raise ConfigurationError(f"The cache of {where} is {value!r}: give a CacheHint")


def _order(value: Any, where: str) -> int:
    if isinstance(value, int) and abs(value) < ORDER_BOUND:
        return value
    if value is None:
        return 0
    raise ConfigurationError(f"The order of {where} is {value!r}: give a smaller integer")


# Types with few values.


def _choice_completers(signature: Signature) -> dict[str, Completer]:
    """Completers for the parameters whose type lists its values: a Literal or an Enum."""
    listed = {p.name: _values(p.annotation) for p in signature.parameters}
    return {name: _choice_completer(values) for name, values in listed.items() if values}


def _values(annotation: Any) -> tuple[str, ...]:
    if get_origin(annotation) is Literal:
        return tuple(str(value) for value in get_args(annotation))
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return tuple(str(member.value) for member in annotation)
    return ()


def _choice_completer(values: tuple[str, ...]) -> Completer:
    def choose(value: str) -> list[str]:
        typed = value.casefold()
        return [each for each in values if each.casefold().startswith(typed)]

    return Completer(function=choose, is_async=False, names=("value",), frame=None)
