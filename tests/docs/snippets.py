"""What one writes in a tool, and what happens: run by ``test_snippets``, shown in the pages.

A snippet is written as in an ``mcp.py``. Its outcome is what the client receives, or the words of
an error; ``test_snippets`` compares it.
"""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

from django_mcp import ConfigurationError, Server, registry
from django_mcp.core.components.base import InvalidOutput, UnserializableResult
from django_mcp.core.protocol.errors import Json
from django_mcp.core.server.failures import unregister_exception
from django_mcp.testing import ErrorResponse, SyncClient

IMPORTS = """
import functools
from collections import ChainMap
from datetime import date, datetime, timedelta
from decimal import Decimal
from io import BytesIO
from typing import Annotated, Any, NamedTuple

from asgiref.sync import sync_to_async
from django import forms
from django.contrib.admin.views.decorators import staff_member_required
from django.contrib.auth.decorators import login_required, permission_required
from django.core.exceptions import PermissionDenied, ValidationError
from django.core.paginator import Paginator
from django.db import IntegrityError, transaction
from django.db.models import Count, QuerySet
from django.forms.models import model_to_dict
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils.translation import gettext_lazy as _
from django.views.decorators.csrf import csrf_exempt
from PIL import Image
from pydantic import BaseModel, Field
from rest_framework import serializers

from django_mcp import *
from library.models import Author, Book, Genre


class BookForm(forms.ModelForm):
    class Meta:
        model = Book
        fields = ["title", "price"]


class BookSerializer(serializers.ModelSerializer):
    class Meta:
        model = Book
        fields = ["title", "price"]


class BookOut(BaseModel):
    title: str
    cover: str | None = None


class Point(NamedTuple):
    x: int
    y: int


class Filters(BaseModel):
    tags: list[str] = []


class OutOfStock(Exception):
    pass


dune = Book.objects.get(title="Dune")
"""


@dataclass(frozen=True)
class Snippet:
    """What one writes, and its outcome."""

    code: str
    outcome: str
    arguments: Json = field(default_factory=dict)
    is_shown: bool = True
    """Whether the page shows it; the test runs it in any case."""


def unshown(snippet: Snippet) -> Snippet:
    """A snippet that is only tested: the table shows another one of its kind."""
    return replace(snippet, is_shown=False)


def returns(line: str, outcome: str, annotation: str = "") -> Snippet:
    """A tool that consists of one line."""
    arrow = f" -> {annotation}" if annotation else ""
    return Snippet(f"@tool\ndef it(){arrow}:\n    {line}", outcome)


def takes(parameters: str, line: str, arguments: Json, outcome: str) -> Snippet:
    """A tool with parameters and one line."""
    return Snippet(f"@tool\ndef it({parameters}):\n    {line}", outcome, arguments)


def run(snippet: Snippet) -> str:
    """Return the outcome of a snippet."""
    server, module = Server("snippets"), ModuleType("snippet")
    decorators = {"tool": server.tool, "resource": server.resource, "prompt": server.prompt}
    exec(IMPORTS, vars(module))
    vars(module).update(decorators)
    sys.modules[module.__name__] = module
    try:
        exec(snippet.code, vars(module))
        registry.check_decorators(server)
        with SyncClient(server, raise_exceptions=True) as client:
            return _described(_called(client, server, snippet.arguments))
    except ConfigurationError as error:
        return f"At startup: {error}"
    except (InvalidOutput, UnserializableResult) as error:
        return f"Error: {error}"
    except ErrorResponse as error:
        return f"Protocol error: {error.message}"
    finally:
        del sys.modules[module.__name__]
        unregister_exception(vars(module)["OutOfStock"])


def _called(client: SyncClient, server: Server, arguments: Json) -> dict[str, Any]:
    (component,) = server.components.all()
    if component.kind == "tool":
        return client.call_tool(component.name, arguments)
    if component.kind == "prompt":
        return client.get_prompt(component.name, arguments)
    uri = component.key
    for name, value in arguments.items():
        uri = uri.replace(f"{{{name}}}", str(value))
    return client.read_resource(uri)


def _described(result: dict[str, Any]) -> str:
    if result.get("isError"):
        return f"Error for the model: {result['content'][0]['text']}"
    if "structuredContent" in result:
        return json.dumps(result["structuredContent"], ensure_ascii=False)
    blocks = result.get("content") or result.get("contents")
    blocks = blocks or [each["content"] for each in result.get("messages", ())]
    return "; ".join(map(_block, blocks)) or "no content"


def _block(block: dict[str, Any]) -> str:
    block = block.get("resource", block)
    if "text" in block:
        is_listed = block.get("mimeType", "text/plain") == "text/plain"
        return block["text"] if is_listed else f"{block['text']} ({block['mimeType']})"
    data = "blob" if "blob" in block else block["type"]
    return f"{data} of type {block['mimeType']}"


def table(group: str) -> str:
    """The snippets of a group as a table."""
    lines = ["| code | outcome |", "|---|---|"]
    lines += [
        f"| {_code(each)} | {_cell(each.outcome)} |" for each in SNIPPETS[group] if each.is_shown
    ]
    return "\n".join(lines)


def _code(snippet: Snippet) -> str:
    lines = textwrap.dedent(snippet.code).strip().splitlines()
    if lines[:1] == ["@tool"] and len(lines) == 3:
        is_bare = lines[1] == "def it():"
        lines = [lines[2].strip()] if is_bare else lines[1:]
    shown = "<br>".join(f"`{_escaped(line)}`" for line in lines if line.strip())
    if snippet.arguments:
        shown += f"<br>given `{_escaped(json.dumps(snippet.arguments))}`"
    return shown


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def _cell(outcome: str) -> str:
    prefix, colon, words = outcome.partition(": ")
    if colon and prefix in PREFIXES:
        shown = textwrap.shorten(words, MAX_MESSAGE, placeholder=" …")
        return f"{prefix}: *{_escaped(shown)}*"
    # A row of a table is one line.
    return "<br>".join(f"`{_escaped(line)}`" for line in outcome.splitlines())


MAX_MESSAGE = 150
"""Characters of a message in a table: developers read the rest where they make the mistake."""

PREFIXES = ("At startup", "Error", "Error for the model", "Protocol error")

A_MODEL = (
    "Error: A value of type Book is a model instance, which has no JSON form. "
    "Choose its fields: return Book.objects.values(…), model_to_dict(…), a "
    "pydantic model or a serializer's .data, or declare a ModelToolset "
    "(django_mcp.toolsets)"
)
VIEW_DECORATOR = (
    "At startup: snippet.it has a decorator of views, which expects a "
    "request: remove it, and let the registration say who may call: "
    'permission="login_required", "staff_member", "superuser", '
    '"app_label.codename", a function that takes the Frame, or a permission class of REST '
    "framework"
)
ABOVE = (
    "At startup: snippet:1 registers it, which a decorator above the "
    "registration replaces: calls of the tool bypass the decorator. Write the "
    "registration as the first decorator or, instead of a decorator of views, "
    'permission="login_required", "staff_member", "superuser", '
    '"app_label.codename", a function that takes the Frame, or a permission class of REST '
    "framework"
)
RETURNS_MODEL = (
    "At startup: The return value of snippet.it cannot be sent or received as "
    "JSON: A value of type Book is a model instance, which has no JSON form. "
    "Choose its fields: return Book.objects.values(…), model_to_dict(…), a "
    "pydantic model or a serializer's .data, or declare a ModelToolset "
    "(django_mcp.toolsets)"
)

SNIPPETS: Mapping[str, Sequence[Snippet]] = {
    "rows": (
        returns(
            'return Book.objects.order_by("title").values("title", "price")',
            ('[{"title": "Dune", "price": "9.90"}, {"title": "Emma", "price": "5.00"}]'),
        ),
        unshown(
            returns(
                'return list(Book.objects.order_by("title").values_list("title", flat=True))',
                '["Dune", "Emma"]',
            )
        ),
        unshown(returns('return Book.objects.values("title").first()', '{"title": "Dune"}')),
        returns('return Book.objects.aggregate(n=Count("pk"))', '{"n": 2}'),
        unshown(
            Snippet(
                '@tool\nasync def it():\n    return Book.objects.values("title")',
                '[{"title": "Dune"}, {"title": "Emma"}]',
            )
        ),
        unshown(
            Snippet(
                '@tool\nasync def it():\n    return {"books": Book.objects.values("title")}',
                '{"books": [{"title": "Dune"}, {"title": "Emma"}]}',
            )
        ),
        unshown(returns("return dune", A_MODEL)),
        unshown(returns("return Book.objects.all()", A_MODEL)),
        unshown(returns("return list(Book.objects.all())", f"{A_MODEL} (at 0)")),
        unshown(returns('return {"book": dune}', f"{A_MODEL} (at book)")),
        unshown(returns("return dune", RETURNS_MODEL, "Book")),
        returns("return Book.objects.all()", RETURNS_MODEL, "list[Book]"),
        unshown(
            returns(
                "return dune.author.books",
                (
                    "Error: A value of type RelatedManager is a manager. Return .values(…) of "
                    "it, or a list of pydantic models"
                ),
            )
        ),
        returns(
            "return dune",
            '{"title": "Dune", "cover": "https://example.org/media/covers/dune.png"}',
            "BookOut",
        ),
        unshown(
            returns(
                "return Book.objects.all()",
                (
                    '[{"title": "Dune", "cover": "https://example.org/media/covers/dune.png"}, '
                    '{"title": "Emma", "cover": null}]'
                ),
                "list[BookOut]",
            )
        ),
        unshown(
            Snippet(
                "@tool\nasync def it() -> list[BookOut]:\n    return Book.objects.all()",
                (
                    '[{"title": "Dune", "cover": "https://example.org/media/covers/dune.png"}, '
                    '{"title": "Emma", "cover": null}]'
                ),
            )
        ),
        returns(
            'return model_to_dict(dune, ["title", "cover", "text"])',
            (
                '{"title": "Dune", "text": "https://example.org/media/books/dune.txt", "cover": '
                '"https://example.org/media/covers/dune.png"}'
            ),
        ),
        returns(
            'return Paginator(Book.objects.order_by("pk").values("title"), 1).page(1)',
            '{"results": [{"title": "Dune"}], "page": 1, "pages": 2, "count": 2}',
        ),
        unshown(
            returns(
                "return (book.title for book in Book.objects.all())",
                (
                    "Error: A value of type generator can be read once, and only here. Return "
                    "a list: list(…)"
                ),
            )
        ),
        unshown(
            Snippet(
                "@tool\ndef it():\n    for book in Book.objects.all():\n        yield book.title",
                ("At startup: snippet.it yields, but a handler returns one value: return a list"),
            )
        ),
    ),
    "values": (
        returns('return "Dune"', "Dune"),
        unshown(returns("return 42", "42")),
        returns("return None", "no content"),
        returns("return dune.price", "9.90"),
        returns(
            'return {"on": date(1965, 8, 1), "for": timedelta(days=3)}',
            '{"on": "1965-08-01", "for": "P3D"}',
        ),
        returns('return [Decimal("1.50"), Genre.SCIENCE, {1, 2}]', '["1.50", "s", [1, 2]]'),
        unshown(returns("return Point(1, 2)", "[1, 2]")),
        unshown(returns('return BookOut(title="Dune")', '{"title": "Dune", "cover": null}')),
        unshown(returns("return dune.get_genre_display()", "Science fiction")),
        returns('return _("Yes")', "Yes"),
        unshown(
            returns(
                'return {"answer": _("Yes"), "genre": Genre.SCIENCE.label}',
                '{"answer": "Yes", "genre": "Science fiction"}',
            )
        ),
        unshown(returns('return [_("Yes")]', '["Yes"]', "list[str]")),
        unshown(
            returns(
                'return ChainMap({"stock": 3}, {"stock": 0, "lent": 1})',
                '{"stock": 3, "lent": 1}',
            )
        ),
        unshown(
            returns(
                'return {"rows": [{"price": float("nan")}]}',
                (
                    "Error: rows.0.price is NaN, which JSON does not have: return None or a string "
                    "instead"
                ),
            )
        ),
        unshown(
            returns(
                "return object()",
                (
                    "Error: A value of type object is not JSON serializable. Return a string, "
                    "numbers, lists, dicts, dataclasses, pydantic models or a Response, or "
                    "declare its form with register_serializer."
                ),
            )
        ),
        returns(
            'return b"abc"',
            (
                "Error: A tool returned bytes, which have no type: return "
                "Response.file(…, mime_type=…), or Response.tool().image(…), .audio(…) or "
                ".embedded_resource(…)"
            ),
        ),
    ),
    "forms": (
        returns(
            'return BookForm({"title": ""}).errors',
            ('{"title": ["This field is required."], "price": ["This field is required."]}'),
        ),
        unshown(
            returns(
                'return {"errors": BookForm({"title": ""}).errors}',
                (
                    '{"errors": {"title": ["This field is required."], "price": ["This field '
                    'is required."]}}'
                ),
            )
        ),
        unshown(
            returns(
                'return BookForm({"title": ""}).errors',
                ('{"title": ["This field is required."], "price": ["This field is required."]}'),
                "dict[str, list[str]]",
            )
        ),
        unshown(
            returns('return BookForm({"title": ""}).errors["title"]', '["This field is required."]')
        ),
        unshown(
            returns(
                'return BookForm({"title": ""}).errors.get_json_data()',
                (
                    '{"title": [{"message": "This field is required.", "code": "required"}], '
                    '"price": [{"message": "This field is required.", "code": "required"}]}'
                ),
            )
        ),
        unshown(
            returns(
                'return BookForm({"title": ""})',
                (
                    "Error: A value of type BookForm is a form. Return form.errors or "
                    "form.cleaned_data"
                ),
            )
        ),
        unshown(
            returns('return ValidationError({"title": "Too long."})', '{"title": ["Too long."]}')
        ),
    ),
    "serializers": (
        unshown(returns("return BookSerializer(dune).data", '{"title": "Dune", "price": "9.90"}')),
        returns(
            'return BookSerializer(Book.objects.order_by("title"), many=True).data',
            ('[{"title": "Dune", "price": "9.90"}, {"title": "Emma", "price": "5.00"}]'),
        ),
        unshown(
            returns(
                "return BookSerializer(dune)",
                ("Error: A value of type BookSerializer is a serializer. Return its .data"),
            )
        ),
        returns(
            'BookSerializer(data={"title": "A"}).is_valid(raise_exception=True)',
            "Error for the model: price: This field is required.",
        ),
    ),
    "files": (
        returns("return dune.cover", "https://example.org/media/covers/dune.png"),
        unshown(
            returns(
                'return {"title": dune.title, "text": dune.text}',
                '{"title": "Dune", "text": "https://example.org/media/books/dune.txt"}',
            )
        ),
        unshown(returns('return {"cover": Book(title="Emma").cover}', '{"cover": null}')),
        returns("return Response.file(dune.cover)", "image of type image/png"),
        unshown(returns("return Response.file(dune.text)", "A beginning")),
        returns(
            'return Response.tool().text("The cover:").file(dune.cover)',
            "The cover:; image of type image/png",
        ),
        returns('return Image.new("RGB", (8, 8))', "image of type image/png"),
        unshown(
            returns(
                'return {"cover": Image.new("RGB", (8, 8))}',
                (
                    "Error: A value of type Image is an image. Return it by itself, or in "
                    "Response.tool().file(…) (at cover)"
                ),
            )
        ),
        unshown(returns('return dune.text.open("rb")', "https://example.org/media/books/dune.txt")),
        unshown(
            returns(
                'return BytesIO(b"report")',
                (
                    "Error: A value of type BytesIO is a file. Return Response.file(…), or its "
                    "URL. To take a file, annotate UploadedFile of django.core.files.uploadedfile"
                ),
            )
        ),
        Snippet(
            (
                '@resource("book://{pk}/cover")\ndef cover(pk: int):\n'
                "    return Book.objects.get(pk=pk).cover"
            ),
            "blob of type image/png",
            {"pk": 1},
        ),
        unshown(
            Snippet(
                (
                    '@resource("book://{pk}/text")\ndef text(pk: int):\n'
                    "    return Book.objects.get(pk=pk).text"
                ),
                "A beginning",
                {"pk": 1},
            )
        ),
        returns(
            'return Response.template("library/author.txt", {"author": dune.author})',
            "Books of Frank Herbert:\n* Dune\n* Emma\n",
        ),
    ),
    "views": (
        unshown(
            returns(
                'return JsonResponse({"a": 1})',
                (
                    "Error: A value of type JsonResponse is the response of a view. Return "
                    "the data itself: the dict of a JsonResponse, the URL of a redirect, "
                    "Response.template(…) for a rendered page, Response.file(…) for a file"
                ),
            )
        ),
        unshown(
            returns(
                'return HttpResponse("hello")',
                (
                    "Error: A value of type HttpResponse is the response of a view. Return "
                    "the data itself: the dict of a JsonResponse, the URL of a redirect, "
                    "Response.template(…) for a rendered page, Response.file(…) for a file"
                ),
            )
        ),
        unshown(
            returns(
                'return redirect("/")',
                (
                    "Error: A value of type HttpResponseRedirect is the response of a view. "
                    "Return the data itself: the dict of a JsonResponse, the URL of a "
                    "redirect, Response.template(…) for a rendered page, Response.file(…) for "
                    "a file"
                ),
            )
        ),
    ),
    "arguments": (
        takes("book: Book", "return book.title", {"book": 1}, "Dune"),
        unshown(
            takes(
                "book: Book",
                "return book.title",
                {"book": 99},
                "Error for the model: There is no book 99",
            )
        ),
        takes(
            "book: Annotated[Book, Lookup(Book.objects.filter(is_public=True))]",
            "return book.title",
            {"book": 2},
            "Error for the model: There is no book 2",
        ),
        unshown(
            takes(
                "book: Annotated[Book, Lookup(lambda frame: Book.objects.filter(is_public=True))]",
                "return book.title",
                {"book": 1},
                "Dune",
            )
        ),
        unshown(
            takes(
                'book: Annotated[Book, Lookup(field="title")]',
                "return book.pk",
                {"book": "Dune"},
                "1",
            )
        ),
        takes(
            "books: list[Book]",
            "return [book.title for book in books]",
            {"books": [2, 1]},
            '["Emma", "Dune"]',
        ),
        unshown(takes("book: Book | None = None", "return book", {}, "no content")),
        unshown(
            Snippet("@tool\nasync def it(book: Book):\n    return book.title", "Dune", {"book": 1})
        ),
        unshown(
            Snippet(
                '@resource("book://{book}")\ndef read(book: Book):\n    return book.title',
                "Protocol error: Resource not found",
                {"book": 99},
            )
        ),
        unshown(takes("data: bytes", "return len(data)", {"data": "aGVsbG8="}, "5")),
        unshown(
            takes(
                "data: bytes",
                "return len(data)",
                {"data": "not base64"},
                ("Error for the model: Invalid arguments: data: Input should be base64"),
            )
        ),
        takes("genre: Genre", "return genre.label", {"genre": "s"}, "Science fiction"),
        unshown(
            takes(
                "genre: Genre",
                "return genre.label",
                {"genre": "x"},
                ("Error for the model: Invalid arguments: genre: Input should be 'f' or 's'"),
            )
        ),
        unshown(
            takes("at: datetime", "return at", {"at": "2026-03-01T10:00"}, "2026-03-01T10:00:00Z")
        ),
        unshown(takes("ids: list[int]", "return sum(ids)", {"ids": "[1, 2]"}, "3")),
        unshown(
            takes(
                "filters: Filters",
                "return filters.tags",
                {"filters": '{"tags": ["new"]}'},
                '["new"]',
            )
        ),
        unshown(
            takes(
                "n: int",
                "return n",
                {"n": "5"},
                ("Error for the model: Invalid arguments: n: Input should be a valid integer"),
            )
        ),
        unshown(takes("n: Annotated[int, Field(strict=False)]", "return n", {"n": "5"}, "5")),
        unshown(takes("price: Decimal", "return price", {"price": "9.90"}, "9.90")),
        takes(
            "request, n: int",
            "return n",
            {"n": 1},
            (
                "At startup: snippet.it takes a request, as views do. Annotate Frame "
                "instead (frame: Frame), which has the user; if request is an argument "
                "for the model, annotate its type"
            ),
        ),
        unshown(
            takes(
                "request: HttpRequest, n: int",
                "return n",
                {"n": 1},
                (
                    "At startup: A parameter of snippet.it cannot be sent or received as "
                    "JSON: A value of type HttpRequest is for views. Annotate Frame instead, "
                    "which has the user"
                ),
            )
        ),
        unshown(
            takes(
                "*titles",
                "return titles",
                {},
                (
                    "At startup: snippet.it takes *titles, but arguments have names: write "
                    "titles: list[…]"
                ),
            )
        ),
    ),
    "exceptions": (
        takes(
            "pk: int",
            "return get_object_or_404(Book, pk=pk).title",
            {"pk": 99},
            "Error for the model: No Book matches the given query.",
        ),
        takes(
            "pk: int",
            "return Book.objects.get(pk=pk).title",
            {"pk": 99},
            "Error for the model: Book matching query does not exist.",
        ),
        unshown(returns("raise Http404", "Error for the model: Not found")),
        unshown(returns("raise PermissionDenied", "Error for the model: Permission denied")),
        returns(
            'raise PermissionDenied("Only for members")', "Error for the model: Only for members"
        ),
        returns('raise ValidationError("Too long.")', "Error for the model: Too long."),
        unshown(
            takes(
                "title: str",
                "Book(title=title, price=1, author=dune.author).full_clean()",
                {"title": ""},
                (
                    "Error for the model: title: This field cannot be blank.; published: This "
                    "field cannot be null."
                ),
            )
        ),
        returns(
            'Book.objects.create(title="Dune", price=1, published=date.today(), author_id=1)',
            ("Error for the model: The change conflicts with other data of the site."),
        ),
        unshown(returns('raise ToolError(_("Yes"))', "Error for the model: Yes")),
        Snippet(
            (
                '@resource("book://{pk}")\ndef read(pk: int):\n'
                "    return Book.objects.get(pk=pk).title"
            ),
            "Protocol error: Resource not found",
            {"pk": 99},
        ),
        unshown(
            Snippet(
                '@resource("secret://book")\ndef read():\n    raise PermissionDenied',
                "Protocol error: Permission denied",
            )
        ),
        unshown(
            Snippet(
                "@prompt\ndef summary(pk: int):\n    return Book.objects.get(pk=pk).title",
                "Protocol error: Book matching query does not exist.",
                {"pk": "99"},
            )
        ),
        unshown(
            Snippet(
                (
                    'register_exception(OutOfStock, "failed", '
                    '"Nothing is left. Try another book.")\n\n'
                    "@tool\ndef it():\n    raise OutOfStock"
                ),
                "Error for the model: Nothing is left. Try another book.",
            )
        ),
    ),
    "decorators": (
        unshown(
            Snippet(
                '@tool("find")\ndef it():\n    return "found"',
                (
                    "At startup: 'find' is no component: give a function; a name is given as "
                    "@tool(name=…)"
                ),
            )
        ),
        unshown(
            Snippet(
                "class Desk:\n    @tool\n    def it(self):\n        return 1",
                (
                    "At startup: snippet.Desk.it is a method of a class, and self would be an "
                    "argument for the model: register it on an instance, such as tool(Desk().it), "
                    "or derive the class from Tool, Resource or Prompt"
                ),
            )
        ),
        unshown(
            Snippet(
                (
                    "def traced(function):\n    def wrapper(*args, **kwargs):\n"
                    "        return function(*args, **kwargs)\n    return wrapper\n\n"
                    '@tool\n@traced\ndef it():\n    return "done"'
                ),
                (
                    "At startup: snippet.traced.wrapper is the function of a decorator, which "
                    "hides the parameters of the function that it calls: write "
                    "@functools.wraps(function) above it"
                ),
            )
        ),
        Snippet('@tool\n@login_required\ndef it():\n    return "secret"', VIEW_DECORATOR),
        unshown(
            Snippet(
                '@tool\n@permission_required("library.view_book")\ndef it():\n    return "secret"',
                VIEW_DECORATOR,
            )
        ),
        unshown(
            Snippet('@tool\n@staff_member_required\ndef it():\n    return "secret"', VIEW_DECORATOR)
        ),
        unshown(Snippet('@tool\n@csrf_exempt\ndef it():\n    return "done"', VIEW_DECORATOR)),
        unshown(Snippet('@login_required\n@tool\ndef it():\n    return "secret"', ABOVE)),
        unshown(Snippet('@functools.cache\n@tool\ndef it():\n    return "slow"', ABOVE)),
        unshown(
            Snippet(
                '@tool(permission=login_required)\ndef it():\n    return "secret"',
                (
                    "At startup: The permission of snippet.it is a decorator of views: write "
                    'permission="login_required", "staff_member", "superuser", '
                    '"app_label.codename", a function that takes the Frame, or a permission class '
                    "of REST framework"
                ),
            )
        ),
        unshown(
            Snippet(
                '@tool(permission="login_required")\ndef it():\n    return "secret"',
                "Protocol error: Unknown tool: it",
            )
        ),
        Snippet('@tool\n@transaction.atomic\ndef it():\n    return "saved"', "saved"),
        unshown(
            Snippet(
                '@tool\n@transaction.atomic\nasync def it():\n    return "saved"',
                (
                    "At startup: snippet.it is async, but one of its decorators is not, such "
                    "as transaction.atomic or functools.cache: it has ended before the "
                    "function runs. Write def instead of async def"
                ),
            )
        ),
        unshown(Snippet('@tool\n@functools.cache\ndef it():\n    return "cached"', "cached")),
        unshown(
            Snippet('@tool\n@sync_to_async\ndef it():\n    return "in a thread"', "in a thread")
        ),
        Snippet(
            "def add(a: int, b: int):\n    return a + b\n\ntool(functools.partial(add, b=2))",
            "3",
            {"a": 1},
        ),
        Snippet(
            (
                "class Desk:\n    def greet(self, name: str):\n"
                '        return f"Hello {name}"\n\ntool(Desk().greet)'
            ),
            "Hello Ada",
            {"name": "Ada"},
        ),
        unshown(
            Snippet(
                (
                    "class Greet:\n    def __call__(self, name: str):\n"
                    '        return f"Hello {name}"\n\ntool(Greet())'
                ),
                "Hello Ada",
                {"name": "Ada"},
            )
        ),
    ),
}
