"""Resources at one address each, and templates of many addresses."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Unpack, cast

from django_mcp.components import schemas, signature
from django_mcp.components.base import Component, ConfigurationError, InvalidArguments
from django_mcp.components.declaration import (
    ComponentAttributes,
    ComponentSource,
    Options,
    content_annotations,
    opened,
)
from django_mcp.components.schemas import InputSchema
from django_mcp.components.signature import Signature
from django_mcp.components.stored import SPECS_KEPT, canonical, restored
from django_mcp.protocol.content import Annotations
from django_mcp.protocol.errors import Json, ResourceNotFound
from django_mcp.protocol.uri_templates import UriTemplate, has_path_traversal

URI = "uri"
"""The parameter by which a handler asks for the address that is read."""


class Resource(ComponentAttributes):
    """A resource written as a class: derive from it, give ``uri`` and write ``read``.

    ``read(self)`` may be ``async``, and asks for the Frame or not. Its name, unless given, is
    the last part of the URI.
    """

    uri: Any = None
    mime_type: Any = None
    size: Any = None


class ResourceTemplate(ComponentAttributes):
    """Many resources written as a class: give ``uri_template`` and ``name``, write ``read``.

    ``read`` takes the variables of the template, converted to the types of its parameters; a
    value that cannot be converted means that there is no such resource. To say so itself it
    raises ResourceNotFound, and the next template which matches is asked.
    """

    uri_template: Any = None
    mime_type: Any = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReadComponent(Component):
    """What a resource and a template have in common."""

    mime_type: str | None = None
    """As the author said; what is read tells otherwise."""
    listed_mime_type: str = "text/plain"
    input: InputSchema

    def validate_input(self, variables: Mapping[str, str]) -> Any:
        """What its handler is given: the variables of the template, and the ``uri`` if it asks.

        Raises ResourceNotFound, because an address that does not fit is nobody's.
        """
        known = self.input.schema["properties"]
        try:
            return self.input.validate({n: v for n, v in variables.items() if n in known})
        except InvalidArguments as error:
            raise ResourceNotFound.at(variables.get(URI, self.key)) from error

    def _describe_read(self, **own: Any) -> dict[str, Any]:
        description = self.listed_description or None
        return self._describe(description=description, mimeType=self.listed_mime_type, **own)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResourceComponent(ReadComponent):
    """A resource, ready to be listed and read."""

    kind: ClassVar[str] = "resource"

    uri: str
    size: int | None = None

    @property
    def key(self) -> str:
        """Its address: names need not be unique."""
        return self.uri

    def match(self, uri: str) -> dict[str, str] | None:
        """No variables when ``uri`` is its address, else None."""
        return {} if uri == self.uri else None

    def descriptor(self) -> dict[str, Any]:
        """How it is listed, in the words of the newest revision."""
        return {"uri": self.uri, **self._describe_read(size=self.size)}

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any]) -> ResourceComponent:
        """The resource which ``spec`` describes: ``uri`` and the options of its builder."""
        options = {"name": basename(spec["uri"]), **spec}
        return cast("ResourceComponent", _from_spec(canonical(options)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TemplateComponent(ReadComponent):
    """A template of addresses, ready to be listed and read through."""

    kind: ClassVar[str] = "resource_template"

    template: UriTemplate

    @property
    def key(self) -> str:
        """The template as it is written."""
        return self.template.text

    @property
    def specificity(self) -> Any:
        """Sorts the most specific template first."""
        return self.template.specificity

    def match(self, uri: str) -> dict[str, str] | None:
        """The variables in ``uri``, or None when it is not of this form, or leads upwards."""
        variables = self.template.match(uri)
        if variables is None or any(map(has_path_traversal, (uri, *variables.values()))):
            return None
        return variables

    def descriptor(self) -> dict[str, Any]:
        """How it is listed, in the words of the newest revision."""
        return {"uriTemplate": self.key, **self._describe_read()}

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any]) -> TemplateComponent:
        """The template which ``spec`` describes: ``template``, ``name`` and further options."""
        options = {**spec}
        options.setdefault("uri", options.pop("template", None))
        if not options.get("name"):
            raise ConfigurationError("A resource template needs a name: give name=…")
        return cast("TemplateComponent", _from_spec(canonical(options)))


class ResourceOptions(Options, total=False):
    """What can be said of a resource or a template where it is registered."""

    annotations: Annotations | Json | None
    mime_type: str | None
    size: int | None
    """In bytes; templates have none."""


def resource_component(
    target: Any, uri: str | None = None, **options: Unpack[ResourceOptions]
) -> ResourceComponent | TemplateComponent:
    """The resource, or the template when ``uri`` has a ``{``, which ``target`` is.

    ``target`` is a function, or a class or an instance of Resource or ResourceTemplate. What is
    given here wins over the attributes of the class. Raises ConfigurationError.
    """
    base = ResourceTemplate if _is_a(target, ResourceTemplate) else Resource
    declaration = opened(target, base, "read", options, ResourceOptions)
    address = uri or declaration.get("uri" if base is Resource else "uri_template")
    if not isinstance(address, str) or ":" not in address:
        raise ConfigurationError(
            f"The address of {declaration.where} is {address!r}: give a URI with its scheme, "
            'as "shop://customers"'
        )
    if base is ResourceTemplate or "{" in address:
        return _template(declaration, address)
    return _resource(declaration, address)


def _resource(declaration: ComponentSource, uri: str) -> ResourceComponent:
    asked = declaration.signature()
    _refuse_unfilled(declaration, asked, ())
    return ResourceComponent(
        uri=uri,
        name=_resource_name(declaration, uri),
        size=declaration.get("size"),
        **_fields(declaration, asked, ()),
    )


def _template(declaration: ComponentSource, text: str) -> TemplateComponent:
    asked = declaration.signature()
    try:
        template = UriTemplate.parse(text)
    except ValueError as error:
        raise ConfigurationError(f"The template of {declaration.where}: {error}") from error
    _refuse_unfilled(declaration, asked, template.names)
    _refuse_unused(declaration, asked, template.names)
    return TemplateComponent(
        template=template,
        name=_template_name(declaration),
        **_fields(declaration, asked, template.names),
    )


def _fields(declaration: ComponentSource, asked: Signature, names: Sequence[str]) -> dict[str, Any]:
    """What both kinds declare alike."""
    call = signature.by_keywords(declaration.function, asked)
    rest = [name for name in names if asked.rest and name not in asked.names]
    return {
        "mime_type": declaration.get("mime_type"),
        "listed_mime_type": declaration.get("mime_type") or _guessed_type(asked.returns),
        "input": schemas.input_of_signature(asked, more=rest),
        "annotations": content_annotations(declaration.get("annotations"), declaration.where),
        "invoke": call.invoke,
        "is_async": call.is_async,
        "takes_frame": call.takes_frame,
        "complete": declaration.completers(names, asked),
        **declaration.common(),
    }


def _refuse_unfilled(declaration: ComponentSource, asked: Signature, names: Sequence[str]) -> None:
    unfilled = [
        parameter.name
        for parameter in asked.parameters
        if parameter.name not in (*names, URI) and parameter.default is inspect.Parameter.empty
    ]
    if unfilled:
        raise ConfigurationError(
            f"{declaration.where} takes {unfilled[0]}, which its address does not have: write "
            f"{{{unfilled[0]}}} into the URI, or give the parameter a default"
        )


def _refuse_unused(declaration: ComponentSource, asked: Signature, names: Sequence[str]) -> None:
    unused = [name for name in names if name not in asked.names]
    if unused and not asked.rest and URI not in asked.names:
        raise ConfigurationError(
            f"{declaration.where} does not take {unused[0]}, a variable of its template: let it "
            f"take {unused[0]}, or uri"
        )


def _resource_name(declaration: ComponentSource, uri: str) -> str:
    """As declared; else of a function its own name, of a class the last part of its address."""
    given = declaration.get("name")
    if given is None and declaration.author is None:
        return declaration.default_name
    return str(given or basename(uri))


def basename(uri: str) -> str:
    """The last part of a URI."""
    return uri.rstrip("/").rpartition("/")[2] or uri


def _template_name(declaration: ComponentSource) -> str:
    name = declaration.get("name") or (declaration.default_name if not declaration.author else None)
    if not name:
        raise ConfigurationError(
            f"The template of {declaration.where} needs a name: write name = …"
        )
    return str(name)


def _guessed_type(returns: Any) -> str:
    """What a handler will probably return, for lists; reading tells for certain."""
    if returns is bytes:
        return "application/octet-stream"
    structured = schemas.structure_of(returns) is not None
    return "application/json" if structured else "text/plain"


def _is_a(target: Any, base: type) -> bool:
    return issubclass(target, base) if isinstance(target, type) else isinstance(target, base)


@lru_cache(maxsize=SPECS_KEPT)
def _from_spec(spec: bytes) -> ResourceComponent | TemplateComponent:
    return restored(spec, resource_component, _unanswered)


def _unanswered(**variables: str) -> None:
    """Stands for the handler of a resource which the server reads."""
