"""Bytes, JSON in strings, strict numbers, and descriptions in docstrings."""

from __future__ import annotations

from base64 import b64encode
from collections import Counter, OrderedDict, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date
from enum import Enum
from inspect import cleandoc
from typing import Annotated, Any, Literal, NamedTuple, Optional

import pytest
from pydantic import AliasChoices, BaseModel, BeforeValidator, Field

from django_mcp.core.components.invalid_arguments import InvalidArguments, LargeArguments
from django_mcp.core.components.prompt import prompt_component
from django_mcp.core.components.tool import tool_component


class Pair(NamedTuple):
    number: int
    text: str


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Inner(BaseModel):
    x: int
    tags: list[str] = []


def schema_of(annotation: Any) -> Any:
    def f(a: Any) -> None: ...

    f.__annotations__["a"] = annotation
    return tool_component(f).input


def valid(annotation: Any, value: Any) -> Any:
    """The value, which is the same if it is validated in a thread."""
    schema = schema_of(annotation)
    large = schema.validate_large({"a": value})["a"]
    with suppress(LargeArguments):
        assert schema.validate({"a": value})["a"] == large
    return large


def problem(annotation: Any, value: Any) -> str:
    with pytest.raises(InvalidArguments) as caught:
        schema_of(annotation).validate_large({"a": value})
    return caught.value.problems


class TestBytes:
    def test_bytes_are_listed_and_decoded_as_base64(self) -> None:
        listed = schema_of(bytes).schema["properties"]["a"]
        assert listed == {"type": "string", "contentEncoding": "base64"}
        assert valid(bytes, b64encode(b"\xff\x00").decode()) == b"\xff\x00"
        assert valid(list[bytes] | None, ["aGk="]) == [b"hi"]

    @pytest.mark.parametrize("text", ["a", "aGk", "aG k=", "aGk=\n", "ä"])
    def test_anything_but_base64_is_rejected(self, text: str) -> None:
        assert problem(bytes, text) == "a: Input should be base64"

    def test_length_is_that_of_the_bytes(self) -> None:
        short = Annotated[bytes, Field(max_length=4)]
        assert schema_of(short).schema["properties"]["a"]["maxLength"] == 8
        assert valid(short, b64encode(b"four").decode()) == b"four"
        assert "at most 4" in problem(short, b64encode(b"five!").decode())


class TestJsonInStrings:
    @pytest.mark.parametrize(
        ("annotation", "text", "value"),
        [
            (list[int], "[1, 2]", [1, 2]),
            (list[int] | None, " [1]", [1]),
            (dict[str, int], '{"a": 1}', {"a": 1}),
            (Inner, '{"x": 1}', Inner(x=1)),
            (list[Inner], ['{"x": 1}', {"x": 2, "tags": "[]"}], [Inner(x=1), Inner(x=2)]),
            (Inner, '{"x": 1, "tags": "[\\"a\\"]"}', Inner(x=1, tags=["a"])),
            (set[str], '["a"]', {"a"}),
            (tuple[int, str], '[1, "a"]', (1, "a")),
            (list[int] | int, "[3]", [3]),
            (Sequence[int], "[1]", [1]),
            (deque[int], "[1]", deque([1])),
            (Pair, '[1, "a"]', Pair(1, "a")),
            (OrderedDict[str, int], '{"a": 1}', OrderedDict(a=1)),
            (Counter[str], '{"a": 1}', Counter("a")),
            (Mapping[str, int], '{"a": 1}', {"a": 1}),
        ],
    )  # fmt: skip
    def test_string_is_parsed_where_a_container_is_expected(
        self, annotation: Any, text: Any, value: Any
    ) -> None:
        assert valid(annotation, text) == value

    def test_string_stays_where_a_string_is_expected(self) -> None:
        assert valid(str, "[1]") == "[1]"
        assert valid(str | list[int], "[1]") == "[1]"
        assert valid(Any, "[1]") == "[1]"

    @pytest.mark.parametrize("text", ["nope", "[1", '"[1]"', "1", "", "[9999999999999999999999]"])
    def test_any_other_string_is_rejected(self, text: str) -> None:
        assert problem(list[int], text) == "a: Input should be a valid list"

    @pytest.mark.parametrize("item", ['"\\ud83d"', "1e999", "1" * 5000])
    def test_string_whose_items_cannot_be_processed_is_rejected(self, item: str) -> None:
        assert problem(list[Any], f"[1, {item}]") == "a: Input should be a valid list"

    def test_items_of_a_parsed_string_are_validated(self) -> None:
        assert problem(list[int], '["x"]') == "a.0: Input should be a valid integer"

    def test_number_of_values_is_bounded(self) -> None:
        many = f"[{'1,' * 200_000}1]"
        assert problem(list[int], many) == "a: Input should be a valid list"

    def test_long_string_is_parsed_in_a_thread(self) -> None:
        text = f"[{'1,' * 40_000}1]"
        with pytest.raises(LargeArguments):
            schema_of(list[int]).validate({"a": text})
        assert len(schema_of(list[int]).validate_large({"a": text})["a"]) == 40_001

    def test_hand_written_schema_gets_parsed_values(self) -> None:
        properties = {"ids": {"type": "array"}, "text": {"type": "string"}}
        tool = tool_component(
            lambda params: None, name="it", input_schema={"properties": properties}
        )
        assert tool.validate_input({"ids": "[1]", "text": "[1]"}) == {"ids": [1], "text": "[1]"}


class TestNumbers:
    @pytest.mark.parametrize(
        ("annotation", "value"),
        [
            (int, "5"), (float, "5"), (bool, "true"), (list[int], ["5"]), (int | None, "5"),
            (dict[str, float], {"a": "1.5"}), (Inner, {"x": "1"}), (int, 5.5), (int, True),
        ],
    )  # fmt: skip
    def test_number_is_no_string(self, annotation: Any, value: Any) -> None:
        assert "Input should be" in problem(annotation, value)

    def test_float_without_a_fraction_is_an_integer(self) -> None:
        assert valid(int, 5.0) == 5
        assert valid(list[int], [1.0, 2]) == [1, 2]

    def test_integer_is_a_number(self) -> None:
        assert valid(float, 5) == 5.0

    def test_string_is_accepted_where_the_schema_allows_it(self) -> None:
        lax = Annotated[int, Field(strict=False)]
        listed = schema_of(lax).schema["properties"]["a"]["anyOf"]
        assert [each["type"] for each in listed] == ["integer", "string"]
        assert valid(lax, "12345678901234567890123") == 12345678901234567890123
        assert valid(Annotated[float, Field(strict=False)], "1.5") == 1.5

    @pytest.mark.parametrize("text", ["nan", "Infinity", "-inf", "1e999"])
    def test_string_is_a_finite_number(self, text: str) -> None:
        def it(n: float) -> str:
            return str(n)

        with pytest.raises(InvalidArguments, match="finite number"):
            prompt_component(it).validate_input({"n": text})
        assert "finite number" in problem(list[Annotated[float, Field(strict=False)]], [text])

    def test_validator_of_an_annotation_may_return_a_string(self) -> None:
        assert valid(Annotated[int, BeforeValidator(lambda text: str(text))], 5) == 5

    def test_arguments_of_a_prompt_are_strings(self) -> None:
        def it(n: int) -> str:
            return str(n)

        assert prompt_component(it).validate_input({"n": "5"}) == {"n": 5}


STYLES = {
    "google": """Find products.

    More words.

    Args:
        name (str): A part of
            the name.
        own: Not this.
        frame: Not listed.

    Returns:
        The names.
    """,
    "numpy": """Find products.

    More words.

    Parameters
    ----------
    name : str
        A part of the name.
    own : str
        Not this.

    Returns
    -------
    list
        The names.
    """,
    "reST": """Find products.

    More words.

    :param name: A part of the name.
    :param own: Not this.
    :returns: The names.
    """,
}


WARNINGS = {
    "google": """Delete a customer.

    Args:
        name: Whom to delete.

            By name.
        size: How many.

    Ask the user first.

    Warning:
        It cannot be undone.

    Attributes:
        name: Something else.
    Important: It deletes the orders too.

    Raises:
        ToolError: Of no use to a model.

    Note:
        Beware.
    """,
    "numpy": """Delete a customer.

    Parameters
    ----------
    name : str
        Whom to delete.

        By name.
    size : int
        How many.

    Ask the user first.
    It cannot be undone.

    Raises
    ------
    ToolError
        Of no use to a model.

    Warnings
    --------
    It deletes the orders too.
    """,
    "reST": """Delete a customer.

    :param name: Whom to delete.

        By name.
    :type name: str
    :param size: How
        many.
    :raises ToolError: Of no use to a model.

    Ask the user first.

    .. warning:: It cannot be undone.
    """,
}
"""Docstrings with words for the model after the parameters."""


class TestDocstrings:
    @pytest.mark.parametrize("docstring", WARNINGS.values(), ids=WARNINGS)
    def test_text_after_the_parameters_stays(self, docstring: str) -> None:
        def delete(name: str, size: int = 1) -> None: ...

        delete.__doc__ = docstring
        tool = tool_component(delete)
        listed = tool.input_schema["properties"]
        descriptions = [listed[name]["description"] for name in ("name", "size")]
        assert descriptions == ["Whom to delete. By name.", "How many."]
        paragraphs = cleandoc(docstring).split("\n\n")
        ask = next(number for number, text in enumerate(paragraphs) if text.startswith("Ask"))
        kept = [text for text in paragraphs[ask:] if not text.startswith("Raises")]
        assert tool.listed_description == "\n\n".join([paragraphs[0], *kept])

    @pytest.mark.parametrize("docstring", STYLES.values(), ids=STYLES)
    def test_parameters_are_described_in_the_schema(self, docstring: str) -> None:
        def find(name: str, own: Annotated[str, Field(description="Own")] = "") -> None: ...

        find.__doc__ = docstring
        tool = tool_component(find)
        listed = tool.input_schema["properties"]
        assert listed["name"]["description"] == "A part of the name."
        assert listed["own"]["description"] == "Own"
        assert tool.description == "Find products.\n\nMore words.\n\nReturns: The names."

    def test_parameter_with_an_alias_is_described(self) -> None:
        def find(
            name: Annotated[str, Field(alias="from")],
            size: int = Field(1, validation_alias="count"),
            other: int = Field(1, validation_alias=AliasChoices("another", "other")),
        ) -> None:
            """Find.

            :param name: A name.
            :param size: A size.
            :param other: Another.
            """

        tool = tool_component(find)
        listed = tool.input_schema["properties"]
        assert listed["from"]["description"] == "A name."
        assert listed["count"]["description"] == "A size."
        given = {"name": "a", "size": 2, "other": 3}
        assert tool.validate_input({"from": "a", "count": 2, "other": 3}) == given

    def test_prompt_lists_the_descriptions(self) -> None:
        def find(name: str) -> str:
            return name

        find.__doc__ = STYLES["google"]
        assert prompt_component(find).arguments[0]["description"] == "A part of the name."

    @pytest.mark.parametrize(
        "docstring", ["Args are good.", "Find.\n\nArgs:\n    other: A word.", "Note: x: y", ""]
    )
    def test_other_docstrings_stay(self, docstring: str) -> None:
        def find(name: str) -> None: ...

        find.__doc__ = docstring
        tool = tool_component(find)
        assert tool.description == docstring
        assert "description" not in tool.input_schema["properties"]["name"]


MISSING: Any = None
"""A default that its annotation does not allow."""


class TestNullOfAnOptionalArgument:
    """Hosts send null for what a model leaves out."""

    def test_null_means_that_an_argument_with_a_default_is_not_given(self) -> None:
        def find(
            sku: str,
            size: int = 5,
            tags: list[int] = MISSING,
            color: Literal["red", "blue"] = "red",
            anything: Any = 7,
            label: str | None = "none",
        ) -> None: ...

        del find.__annotations__["anything"]
        schema = tool_component(find).input
        names = ("size", "tags", "color", "anything", "label")
        nulls: dict[str, Any] = dict.fromkeys(names)
        for validate in (schema.validate, schema.validate_large):
            assert validate is not None
            given = validate({"sku": "a", **nulls})
            # A type with null takes it as its value.
            defaults = {"size": 5, "tags": None, "color": "red", "anything": 7, "label": None}
            assert given == {"sku": "a", **defaults}
            with pytest.raises(InvalidArguments, match="^sku: Input should be a valid string"):
                validate({"sku": None, **nulls})
            with pytest.raises(InvalidArguments, match="^size: Input should be a valid integer"):
                validate({"sku": "a", "tags": None, "size": "x"})

    def test_null_in_a_value_is_no_missing_argument(self) -> None:
        assert problem(Inner, {"x": 1, "tags": None}) == "a.tags: Input should be a valid list"

    def test_null_means_the_same_with_a_json_schema(self) -> None:
        schema = {
            "type": "object",
            "properties": {
                "sku": {"type": "string"},
                "size": {"type": "integer", "default": 5},
                "color": {"type": ["string", "null"]},
            },
            "required": ["sku"],
            "additionalProperties": False,
        }
        read = tool_component(lambda arguments: None, name="find", input_schema=schema).input
        given = {"sku": "a", "size": None, "color": None}
        assert read.validate(given) == {"sku": "a", "size": 5, "color": None}
        with pytest.raises(InvalidArguments, match="sku"):
            read.validate({"sku": None})
        with pytest.raises(InvalidArguments) as caught:
            read.validate({"sku": "a", "toolCallId": None})
        unknown = "toolCallId: unknown argument (accepted: sku, size, color)"
        assert caught.value.problems == unknown

    def test_unknown_argument_is_refused_with_those_that_there_are(self) -> None:
        def find(sku: str, size: int = 5) -> None: ...

        with pytest.raises(InvalidArguments) as caught:
            tool_component(find).validate_input({"sku": "a", "toolCallId": None})
        assert caught.value.problems == "toolCallId: unknown argument (accepted: sku, size)"

    def test_optional_argument_of_a_prompt_may_be_null_or_empty(self) -> None:
        def greet(
            name: str = "you",
            count: int = 1,
            day: date | None = None,
            *,
            words: tuple[str, ...] = (),
        ) -> str:
            return ""

        read = prompt_component(greet).input
        names = ("name", "count", "day", "words")
        defaults = {"name": "you", "count": 1, "day": None, "words": ()}
        assert read.validate(dict.fromkeys(names)) == defaults
        assert read.validate(dict.fromkeys(names, "")) == defaults
        assert read.validate({"name": ""})["name"] == ""
        with pytest.raises(InvalidArguments, match="^count: "):
            read.validate({"name": "", "count": "x"})


def test_parameters_may_have_any_names_that_python_has() -> None:
    def find(
        copy: int, arg_copy: int, arg_copy_: int, _x: int, __x: int, model_config: int = 6
    ) -> None: ...

    component = tool_component(find)
    values = {"copy": 1, "arg_copy": 2, "arg_copy_": 3, "_x": 4, "__x": 5}
    assert [*component.input_schema["properties"]] == [*values, "model_config"]
    assert component.validate_input(values) == {**values, "model_config": 6}


@pytest.mark.parametrize(
    ("annotation", "values"),
    [
        (Literal["red", "blue"], ["red", "blue"]),
        (Color, ["red", "blue"]),
        (Literal[Color.RED, "x"], ["red", "x"]),
        (Annotated[Literal["red", "blue"], Field(description="A color")], ["red", "blue"]),
        (Literal["red"] | None, ["red"]),
        (Literal["red", None], ["red"]),
        (Optional[Color], ["red", "blue"]),  # noqa: UP045 - as authors write it
        (
            Annotated[Color | Literal["x"] | None, Field(description="A color")],
            ["red", "blue", "x"],
        ),
        (Color | str, None),
        (str, None),
    ],
)
def test_choices_of_an_argument_are_suggested(annotation: Any, values: list[str] | None) -> None:
    def paint(color: Any) -> str:
        return ""

    paint.__annotations__["color"] = annotation
    completer = prompt_component(paint).complete.get("color")
    assert (completer and completer.invoke("", {}, None)) == values


def test_values_to_complete_may_be_listed() -> None:
    def show(sku: str) -> str:
        return sku

    component = prompt_component(show, complete={"sku": ["Apple", "Avocado", "Beet"]})
    completer = component.complete["sku"]
    assert completer.invoke("a", {}, None) == ["Apple", "Avocado"]
