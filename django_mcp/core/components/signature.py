"""Reading which parameters a handler has, how to call it, and what its docstring says of them.

The Frame class is known by its attribute ``__mcp_frame__`` only: it belongs to a higher layer.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import re
import types
import typing
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

from django_mcp.core import private
from django_mcp.core.components.arguments import adapted, deferring, is_deferred
from django_mcp.core.components.base import ConfigurationError, Invoke

UNIONS = (Union, types.UnionType)
VIEW_MODULES = (
    "django.contrib.auth.decorators",
    "django.contrib.admin.views.decorators",
    "django.views.",
    "django.utils.decorators",
    "rest_framework.decorators",
)
"""Modules whose decorators are for views; a module whose name ends with a dot has submodules."""
NOT_FOR_VIEWS = ("sensitive_variables_wrapper",)
"""The decorators in these modules that any function may have."""
MAX_DECORATORS = 20
"""How many functions inside a decorated function are looked at."""
OWNERS = ("self", "cls")
"""The first parameter of a method that is not bound to an instance."""
CALLERS = ("u", "user", "request", "req")
"""Names of a parameter whose function expects something else than the Frame."""
PERMISSIONS = (
    'permission="login_required", "staff_member", "superuser", "app_label.codename", a function '
    "that takes the Frame, or a permission class of REST framework"
)


@dataclass(frozen=True, slots=True)
class Header:
    """Marks a parameter that clients repeat in a header: ``Annotated[str, Header("Region")]``.

    It is sent as ``Mcp-Param-Region`` too, by which a gateway can route a call.
    """

    name: str

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> dict[str, Any]:
        return {**handler(core_schema), "x-mcp-header": self.name}


class Parameter(NamedTuple):
    """One parameter of a handler, other than the Frame."""

    name: str
    annotation: Any
    default: Any
    description: str | None = None
    """Its description in the docstring of the handler."""

    @property
    def is_annotated(self) -> bool:
        return self.annotation is not inspect.Parameter.empty

    @property
    def has_default(self) -> bool:
        return self.default is not inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of a handler, and its return annotation."""

    where: str
    """The handler in messages: its module and name."""
    parameters: tuple[Parameter, ...]
    frame: str | None
    """The name of the parameter that receives the Frame; None if there is none."""
    has_var_keyword: bool
    returns: Any
    """The return annotation."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(parameter.name for parameter in self.parameters)


class CallConvention(NamedTuple):
    """How a handler is called."""

    handler: Callable[..., Any]
    invoke: Invoke
    """Calls the handler with validated arguments and the Frame."""
    is_async: bool
    takes_frame: bool


def read(function: Callable[..., Any]) -> Signature:
    """The signature of ``function``; raises ConfigurationError for one that cannot be called."""
    inner = underlying(function)
    name = getattr(inner, "__qualname__", type(inner).__qualname__)
    where = f"{inner.__module__}.{name}"
    if any(map(is_for_views, layers(function))):
        raise ConfigurationError(
            f"{where} has a decorator of views, which expects a request: remove it, and let the "
            f"registration say who may call: {PERMISSIONS}"
        )
    _check_async(function, where)
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise ConfigurationError(f"{where} yields, but a handler returns one value: return a list")
    # The classes inside the class of a method: ``params: Input`` names one of them.
    owner: Any = type(getattr(function, "__self__", None))
    hints = _hints(inner, where, _classes_in(owner))
    parameters = _parameters(function, where, hints)
    frame_name = None
    for parameter in parameters:
        is_named_frame = parameter.name == "frame" and not _is_annotated(parameter)
        if is_named_frame or is_frame(parameter.annotation):
            frame_name = parameter.name
            break
    arguments = [p for p in parameters if p.name != frame_name and p.kind is not p.VAR_KEYWORD]
    return Signature(
        where=where,
        parameters=tuple(Parameter(p.name, p.annotation, p.default) for p in arguments),
        frame=frame_name,
        has_var_keyword=any(p.kind is p.VAR_KEYWORD for p in parameters),
        returns=hints.get("return", inspect.Parameter.empty),
    )


@functools.lru_cache(maxsize=16)  # Hundreds of tools may be methods of one class.
def _classes_in(owner: Hashable) -> dict[str, Any]:
    return dict(inspect.getmembers_static(owner, inspect.isclass))


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling ``function`` returns a coroutine."""
    # ``underlying`` takes an object that looks like a function for one, such as sync_to_async
    # returns. Calling it calls the method of its class.
    method_of_class = type(function).__call__
    candidates = (function, underlying(function), method_of_class)
    return any(map(inspect.iscoroutinefunction, candidates))


def _check_async(function: Callable[..., Any], where: str) -> None:
    """Raise for an async function in a decorator that has ended before it runs."""
    for outer, inner in itertools.pairwise([*layers(function)]):
        module = getattr(outer, "__globals__", {}).get("__name__")
        ends_early = module == "contextlib" or isinstance(outer, private.CACHED_FUNCTION)
        hides_async = inspect.iscoroutinefunction(inner) and not inspect.iscoroutinefunction(outer)
        if ends_early and hides_async:
            raise ConfigurationError(
                f"{where} is async, but one of its decorators is not, such as transaction.atomic "
                "or functools.cache: it has ended before the function runs. Write def instead of "
                "async def"
            )


def layers(function: Any) -> Iterator[Any]:
    """Yield a function, and the functions inside it that decorators and partials call.

    A decorator without ``functools.wraps`` hides the function that it calls.
    """
    pending = [function]
    for layer in pending:
        yield layer
        inner = (getattr(layer, "__wrapped__", None), getattr(layer, "func", None))
        if len(pending) < MAX_DECORATORS:
            pending += filter(callable, inner)


def replaces(value: Any, function: Callable[..., Any]) -> bool:
    """Whether ``value`` is the result of a decorator that was given ``function``."""
    if value is function:
        return False
    for layer in layers(value):
        if layer is function or any(content is function for content in _contents(layer)):
            return True
    return False


def _contents(function: Any) -> Iterator[Any]:
    """Objects that a decorator may hold: variables of its function, or attributes of its object."""
    for cell in getattr(function, "__closure__", None) or ():
        with suppress(ValueError):  # A variable without a value yet.
            yield cell.cell_contents
    yield from getattr(function, "__dict__", {}).values()


def is_for_views(function: Any) -> bool:
    """Whether ``function`` is a decorator of Django's views, or the result of one."""
    code = getattr(function, "__code__", None)
    module = getattr(function, "__globals__", {}).get("__name__", "")
    # With a dot at the end, so that "…views" is not the beginning of "…viewsets".
    prefixes = tuple(name.rstrip(".") + "." for name in VIEW_MODULES)
    is_of_views = f"{module}.".startswith(prefixes)
    return is_of_views and code is not None and code.co_name not in NOT_FOR_VIEWS


def is_proxy(value: Any) -> bool:
    """Whether ``value`` is a proxy of another object, such as a lazy task of Celery.

    None of its attributes is read here: that would load the other object.
    """
    return any("__class__" in vars(base) for base in type(value).__mro__[:-1])


def underlying(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of a partial, or of a callable object."""
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.isroutine(function):
        return function
    inner: Callable[..., Any] = type(function).__call__
    return inner


def check_call(
    function: Any,
    what: str,
    *given: str,
    keywords: Collection[str] = (),
    remedy: str,
    must_be_sync: bool = False,
) -> inspect.Signature | None:
    """Return the signature of ``function``, or None for a builtin without one.

    Raises ConfigurationError for what cannot be called with the values that ``given`` describes,
    and ``keywords``. ``what`` begins the message, and ``remedy`` ends it. With ``must_be_sync``, an
    async function is refused as well: its caller does not await it, and a coroutine is true.
    """
    if not callable(function):
        raise ConfigurationError(f"{what} is {function!r}, which is no function: {remedy}")
    if must_be_sync and is_async(function):
        raise ConfigurationError(f"{what} is async: write def instead of async def, and {remedy}")
    try:
        parameters = inspect.signature(function)
    except (TypeError, ValueError):  # Of a builtin.
        return None
    try:
        parameters.bind(*given, **dict.fromkeys(keywords))
    except TypeError as error:
        called = f"is called with {' and '.join(given)}" if given else "takes arguments"
        raise ConfigurationError(f"{what} {called} ({error}): {remedy}") from None
    return parameters


def check_permission(permission: Callable[..., Any], where: str) -> None:
    """Raise ConfigurationError for a permission function that does not take the Frame alone."""
    what = f"The permission of {where}"
    remedy = "let it take the Frame, such as lambda frame: frame.user.is_staff"
    in_class = remedy_in_class("permission", permission)
    signature = check_call(permission, what, "the Frame alone", remedy=remedy + in_class)
    if signature is None:
        return
    first = next(iter(signature.parameters.values()))
    if first.name in CALLERS and not _is_annotated(first):
        raise ConfigurationError(f"{what} takes {first.name}: {remedy}")


def remedy_in_class(option: str, function: Any) -> str:
    """What a remedy says besides if ``function`` became a method, which gets ``self`` as well."""
    if inspect.ismethod(function) and inspect.isfunction(function.__func__):
        return f". In a class, write {option} = staticmethod(…) around a function"
    return ""


def check_text(text: Any, what: str) -> None:
    """Raise ConfigurationError if ``text`` is a function that takes arguments, or is async.

    ``what`` begins the message.
    """
    if callable(text):
        remedy = "write no parameters, since it is called for each list"
        check_call(text, what, remedy=remedy, must_be_sync=True)


def is_frame(annotation: Any) -> bool:
    """Whether ``annotation`` is the Frame, or a union that contains it."""
    if get_origin(annotation) is Annotated:
        return is_frame(get_args(annotation)[0])
    if get_origin(annotation) in UNIONS:
        return any(is_frame(member) for member in get_args(annotation))
    return getattr(annotation, "__mcp_frame__", False) is True


def by_keywords(function: Callable[..., Any], signature: Signature) -> CallConvention:
    """Calls ``function`` with each validated argument under its name."""
    invoke = _invoke(function, signature.frame)
    runs_async = is_async(function)
    deferred = [p.name for p in signature.parameters if is_deferred(p.name, adapted(p.annotation))]
    if deferred:
        invoke = deferring(invoke, runs_async, deferred)
    return CallConvention(function, invoke, runs_async, signature.frame is not None)


def by_value(function: Callable[..., Any], signature: Signature) -> CallConvention:
    """Calls ``function`` with the validated arguments as one value: ``execute(params, frame)``."""
    names = list(signature.names)
    frame_name = signature.frame
    # A second parameter without an annotation is the Frame, whatever its name.
    if len(names) == 2 and frame_name is None and not signature.parameters[1].is_annotated:
        frame_name = names.pop()
    if len(names) > 1 or signature.has_var_keyword:
        raise ConfigurationError(
            f"{signature.where} gets its arguments as one value, because their schema is "
            "declared: let it take (params, frame), or leave the schema out"
        )
    call = _invoke(function, frame_name)
    name = names[0] if names else None

    def invoke(value: Any, frame: Any) -> Any:
        arguments = {} if name is None else {name: value}
        return call(arguments, frame)

    return CallConvention(function, invoke, is_async(function), frame_name is not None)


class _FramePlaceholder:
    """Replaces a Frame class that is imported for type checkers only."""

    __mcp_frame__ = True


def _hints(inner: Callable[..., Any], where: str, nested: Mapping[str, Any]) -> dict[str, Any]:
    """The evaluated annotations of a function; ``nested`` are the classes inside its class."""
    module_names = getattr(inspect.unwrap(inner), "__globals__", {})
    local_names: dict[str, Any] = dict(nested)
    if "Frame" not in module_names:
        local_names.setdefault("Frame", _FramePlaceholder)
    try:
        return typing.get_type_hints(inner, localns=local_names, include_extras=True)
    except Exception as error:
        raise ConfigurationError(
            f"An annotation of {where} cannot be evaluated at run time: {error}. Import its name "
            "at the top of the module, not under TYPE_CHECKING nor inside a function"
        ) from error


def _parameters(
    function: Callable[..., Any], where: str, hints: Mapping[str, Any]
) -> list[inspect.Parameter]:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError as error:
        raise ConfigurationError(
            f"{where} has no signature: wrap it in a function with annotations"
        ) from error
    if hides_parameters(function):
        raise ConfigurationError(
            f"{where.replace('<locals>.', '')} is the function of a decorator, which hides the "
            "parameters of the function that it calls: write @functools.wraps(function) above it"
        )
    if parameters and parameters[0].name in OWNERS and not _is_annotated(parameters[0]):
        name = where.rpartition(".")[2]
        raise ConfigurationError(
            f"{where} is a method of a class, and {parameters[0].name} would be an argument for "
            f"the model: register it on an instance, such as tool(Desk().{name}), or "
            "derive the class from Tool, Resource or Prompt"
        )
    for parameter in parameters:
        _check_kind(parameter, where)
    # Arguments that a partial binds by name are fixed: a client cannot choose them.
    partials = (layer for layer in layers(function) if isinstance(layer, functools.partial))
    bound = {name for layer in partials for name in layer.keywords}
    return [
        parameter.replace(annotation=hints.get(parameter.name, parameter.annotation))
        for parameter in parameters
        if parameter.name not in bound
    ]


def _is_annotated(parameter: inspect.Parameter) -> bool:
    return parameter.annotation is not parameter.empty


def hides_parameters(function: Any) -> bool:
    """Whether ``function`` is the result of a decorator without functools.wraps.

    Such a function takes any arguments, and its closure contains the function that it calls.
    """
    code = getattr(function, "__code__", None)
    if code is None or not code.co_flags & inspect.CO_VARARGS or hasattr(function, "__wrapped__"):
        return False
    return any(inspect.isroutine(content) for content in _contents(function))


def _check_kind(parameter: inspect.Parameter, where: str) -> None:
    """Raise for a parameter that no caller can name, and for the request of a view."""
    name = parameter.name
    if name == "request" and not _is_annotated(parameter):
        raise ConfigurationError(
            f"{where} takes a request, as views do. Annotate Frame instead (frame: Frame), which "
            "has the user; if request is an argument for the model, annotate its type"
        )
    if parameter.kind is parameter.VAR_POSITIONAL:
        raise ConfigurationError(
            f"{where} takes *{name}, but arguments have names: write {name}: list[…]"
        )
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise ConfigurationError(
            f"{where} takes {name} by position only, but arguments have names: "
            "take the / out of its signature"
        )


def _invoke(function: Callable[..., Any], frame_name: str | None) -> Invoke:
    if frame_name is None:
        return lambda arguments, frame: function(**arguments)
    return lambda arguments, frame: function(**arguments, **{frame_name: frame})


# Docstrings, in the styles of Google, NumPy and reST.

_SECTIONS = re.compile(
    r"""
    # Google: a title with a colon, and the indented lines below it.
    ^(?:Args|Arguments|Params|Parameters|Raises|Exceptions|Except|Returns):[ ]*
    (?:\n(?:[ ].*)?(?=\n|\Z))+
    # NumPy: an underlined title, and the lines up to the next one, or to a paragraph, which has no
    # indented line below its first.
    |^(?:(?:Other[ ])?(?:Parameters|Params|Arguments|Args)|Raises?|Returns?)[ ]*\n---+[ ]*
    (?:\n(?!\S.*\n---|(?<=\n\n)\S.*$(?!\n[ ])).*)+
    # reST and Epydoc: a field with the lines that continue it, indented ones after an empty line.
    |^[:@](?:param|parameter|arg|argument|key|keyword|type|raises?|except|exception|returns?|rtype)
    \b[^:\n]*:.*
    (?:\n(?:(?![:@])\S.*|[ ]+\S.*|[ ]*(?=\n[ ]+\S)))*
    """,
    re.MULTILINE | re.VERBOSE,
)
"""The sections about parameters, exceptions and the result. A model needs the first two nowhere
else: parameters are in the schema, and errors have messages of their own."""
_OF_PARAMETERS = re.compile(r"(?:Other )?(?:Arg|Param)|[:@](?:param|arg|key)")
"""The beginning of a section about parameters."""


def documented(signature: Signature, own: str, of_method: str) -> tuple[Signature, str]:
    """The signature with the descriptions of its parameters, and the docstring without them."""
    names = {*signature.names, signature.frame or ""}
    text, described = _read_docstring(own, names)
    if of_method != own:
        described = {**_read_docstring(of_method, names)[1], **described}
    if not described:
        return signature, text
    parameters = tuple(p._replace(description=described.get(p.name)) for p in signature.parameters)
    return replace(signature, parameters=parameters), text


def _read_docstring(written: str, names: Collection[str]) -> tuple[str, Mapping[str, str]]:
    """The text of a docstring without its sections about parameters, and their descriptions.

    One that describes none of ``names`` stays as it is.
    """
    docstring = inspect.cleandoc(written)
    sections = _SECTIONS.findall(docstring)
    if not any(map(_OF_PARAMETERS.match, sections)):
        return docstring, {}
    # The import takes 37 ms, and few sites need it at their start.
    parser: Any = import_module("docstring_parser")
    try:
        # The parser takes the first line of a docstring for one without its indentation.
        parsed = parser.parse("\n".join(["", *sections]))
    except parser.ParseError:
        return docstring, {}
    described = {
        each.arg_name: " ".join(each.description.split())
        for each in parsed.params
        if each.description and each.arg_name in names
    }
    if not described:
        return docstring, {}
    text = _SECTIONS.sub("", docstring).strip()
    returns = parsed.returns
    if returns is not None and returns.description:
        text = f"{text}\n\nReturns: {' '.join(returns.description.split())}"
    return re.sub(r"\n{3,}", "\n\n", text), described
