"""Resources, each with one URI, and resource templates, each with many."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Protocol, Unpack, cast

from django_mcp.core.components import declaration, outputs, schemas, stored
from django_mcp.core.components import signature as signatures
from django_mcp.core.components.base import Component, ConfigurationError, explain
from django_mcp.core.components.declaration import ComponentAttributes, ComponentSource, Options
from django_mcp.core.components.invalid_arguments import InvalidArguments
from django_mcp.core.components.schemas import InputSchema
from django_mcp.core.components.signature import Signature
from django_mcp.core.protocol.content import Annotations
from django_mcp.core.protocol.errors import Json, ResourceNotFound
from django_mcp.core.protocol.uri_templates import (
    UriTemplate,
    has_path_traversal,
    is_uri,
    is_uri_template,
)

URI = "uri"
"""The parameter of a handler for the requested URI."""
VERSION = re.compile(r"[0-9a-f]{12}", re.ASCII)
"""The last part of the URI of a version: the beginning of a hash of the contents."""


NUMBER_OF_BYTES = "write a number of bytes"


class Resource(ComponentAttributes):
    """A resource written as a class: derive from it, give ``uri`` and write ``read``.

    ``read(self)`` may be ``async``; the Frame is optional.
    """

    uri: Any = None
    mime_type: Any = None
    size: Any = None
    annotations: Any = None
    model: Any = None


class ResourceTemplate(ComponentAttributes):
    """Many resources written as a class: give ``uri_template`` and ``name``, write ``read``.

    ``read`` takes the variables of the template, converted to the types of its parameters. If that
    fails, there is no such resource. If ``read`` raises ResourceNotFound, the next template that
    matches is read.
    """

    uri_template: Any = None
    mime_type: Any = None
    annotations: Any = None
    model: Any = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReadComponent(Component):
    """What resources and templates have in common: ``resources/read`` answers them."""

    mime_type: str | None = None
    """As declared; None leaves it to the contents."""
    listed_mime_type: str = "text/plain"
    input: InputSchema
    model: Any = None
    """The Django model whose changes are changes of the resources."""

    def validate_input(self, variables: Mapping[str, str]) -> Any:
        """The arguments of its handler; raises ResourceNotFound for invalid variables."""
        known = self.input.schema["properties"]
        try:
            return self.input.validate({n: v for n, v in variables.items() if n in known})
        except InvalidArguments as error:
            problems = "; ".join(_impossible(self.input.schema, variables))
            raise ResourceNotFound.at(variables.get(URI, self.key), problems) from error

    def _describe_read(self, **own: Any) -> dict[str, Any]:
        description = self.listed_description or None
        return self._describe(description=description, mimeType=self.listed_mime_type, **own)


def _impossible(schema: Json, variables: Mapping[str, str]) -> Iterator[str]:
    """Yield the variables whose values are listed, with these values."""
    for name, member in schema["properties"].items():
        reference = str(member.get("$ref", "")).rpartition("/")[2]
        choices = schema.get("$defs", {}).get(reference, member).get("enum")
        if name in variables and choices and variables[name] not in map(str, choices):
            yield f"{name} is none of {', '.join(map(str, choices))}"


class Versions(Protocol):
    """The versions of a resource by which clients cache it."""

    @property
    def listed_uri(self) -> str:
        """Its URI, followed by a slash and a hash of its contents: ``VERSION``."""

    @property
    def is_constant(self) -> bool:
        """Whether its contents stay the same while the process runs."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResourceComponent(ReadComponent):
    """A resource, which has one URI."""

    kind: ClassVar[str] = "resource"
    uri: str
    size: int | None = None
    versions: Versions | None = None
    """It is listed with the version of its contents, and read with any."""

    @property
    def key(self) -> str:
        """Its URI: names need not be unique."""
        return self.uri

    def match(self, uri: str) -> dict[str, str] | None:
        return {} if uri == self.uri else None

    def descriptor(self) -> dict[str, Any]:
        uri = self.uri if self.versions is None else self.versions.listed_uri
        return {"uri": uri, **self._describe_read(size=self.size)}

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any]) -> ResourceComponent:
        options = {"name": basename(spec["uri"]), **spec}
        return cast("ResourceComponent", _from_spec(stored.canonical(options)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TemplateComponent(ReadComponent):
    """A template of resources: its handler takes the variables of a URI."""

    kind: ClassVar[str] = "resource_template"
    template: UriTemplate

    @property
    def key(self) -> str:
        return self.template.text

    @property
    def specificity(self) -> Any:
        return self.template.specificity

    def match(self, uri: str) -> dict[str, str] | None:
        """The variables in ``uri``, or None when it does not match, or one may leave a folder."""
        variables = self.template.match(uri)
        if variables is None or has_path_traversal(uri) or self.template.leads_outside(variables):
            return None
        return variables

    def descriptor(self) -> dict[str, Any]:
        return {"uriTemplate": self.key, **self._describe_read()}

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any]) -> TemplateComponent:
        options = {**spec}
        options.setdefault("uri", options.pop("template", None))
        if not options.get("name"):
            raise ConfigurationError("A resource template needs a name: give name=…")
        return cast("TemplateComponent", _from_spec(stored.canonical(options)))


class ResourceOptions(Options, total=False):
    annotations: Annotations | Json | None
    mime_type: str | None
    size: int | None
    """In bytes; templates have none."""
    model: Any
    """A Django model. When an object is saved or deleted, the subscribers of its resource are
    notified, or the one resource without variables."""


def resource_component(
    target: Any, uri: str | None = None, **options: Unpack[ResourceOptions]
) -> ResourceComponent | TemplateComponent:
    """The component of ``target``: a template when ``uri`` has a ``{``, else a resource."""
    kind = target if isinstance(target, type) else type(target)
    base = ResourceTemplate if issubclass(kind, ResourceTemplate) else Resource
    source = declaration.read(target, base, "read", options, ResourceOptions)
    uri = uri or source.get("uri" if base is Resource else "uri_template")
    if isinstance(uri, str) and (base is ResourceTemplate or "{" in uri):
        return _template(source, uri)
    if not (isinstance(uri, str) and is_uri(uri)):
        raise _invalid_uri(source, uri)
    name = source.get("name")
    if name is None and source.instance is None:
        name = source.default_name
    size = source.checked("size", int, NUMBER_OF_BYTES)
    if size is not None and size < 0:
        raise ConfigurationError(f"size of {source.where} is {size!r}: {NUMBER_OF_BYTES}")
    own = {"uri": uri, "name": str(name or basename(uri)), "size": size}
    return ResourceComponent(**own, **_fields(source, ()))


def _template(source: ComponentSource, text: str) -> TemplateComponent:
    with explain(f"The template of {source.where}"):
        template = UriTemplate.parse(text)
    if not is_uri_template(text):
        raise _invalid_uri(source, text)
    fields = _fields(source, template.names)
    name = source.get("name") or (None if source.instance else source.default_name)
    if not name:
        raise ConfigurationError(f"The template of {source.where} needs a name: write name = …")
    return TemplateComponent(template=template, name=str(name), **fields)


def _invalid_uri(source: ComponentSource, uri: Any) -> ConfigurationError:
    return ConfigurationError(
        f'The URI of {source.where} is {uri!r}: give one with its scheme, as "shop://customers", '
        "and percent-encode what is not a letter of ASCII, a digit or one of -._~:/?#@!$&'()*+,;="
    )


def _fields(source: ComponentSource, names: Sequence[str]) -> dict[str, Any]:
    signature = source.signature
    _check_parameters(signature, names)
    more = [name for name in names if signature.has_var_keyword and name not in signature.names]
    # The type in lists: that of the contents depends on the returned value.
    expected_type = "text/plain"
    if signature.returns is bytes:
        expected_type = "application/octet-stream"
    elif outputs.structured_type(signature.returns) is not None:
        expected_type = "application/json"
    annotations = source.get("annotations")
    if annotations is not None:
        with explain(source.where):
            annotations = Annotations.of(annotations).to_protocol()
    mime_type = source.checked("mime_type", str, 'write a media type, such as "text/csv"')
    return {
        "mime_type": mime_type,
        "model": source.get("model"),
        "listed_mime_type": mime_type or expected_type,
        "input": schemas.input_of_signature(signature, more=more),
        "annotations": annotations,
        "complete": source.completers(names, signature.parameters),
        **signatures.by_keywords(source.function, signature)._asdict(),
        **source.common(),
    }


def _check_parameters(signature: Signature, names: Sequence[str]) -> None:
    """Raise for a required parameter that is no variable of the URI, or an unused variable."""
    for parameter in signature.parameters:
        is_required = parameter.default is inspect.Parameter.empty
        if is_required and parameter.name not in (*names, URI):
            raise ConfigurationError(
                f"{signature.where} takes {parameter.name}, which its URI does not contain: write "
                f"{{{parameter.name}}} into the URI, or give the parameter a default"
            )
    unused = [name for name in names if name not in signature.names]
    if unused and not signature.has_var_keyword and URI not in signature.names:
        raise ConfigurationError(
            f"{signature.where} does not take {unused[0]}, a variable of its template: let it "
            f"take {unused[0]}, or uri"
        )


def basename(uri: str) -> str:
    return uri.rstrip("/").rpartition("/")[2] or uri


@lru_cache(maxsize=stored.CACHED_SPECS)
def _from_spec(spec: bytes) -> ResourceComponent | TemplateComponent:
    return stored.restore(spec, resource_component, _placeholder)


def _placeholder(**variables: str) -> None:
    """Replaces the handler of a resource that a hook of the server reads."""
