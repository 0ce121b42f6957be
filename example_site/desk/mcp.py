"""Tools, resources and a prompt of the desk, written as classes.

A class is useful when several things belong together: a schema, a model of the arguments, a
completion. Its docstring is the description. One instance handles all calls, so state is stored
in the Frame.

Handlers that wait or never block are ``async``: they occupy no thread.
"""

import asyncio
import operator
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from django_mcp import (
    Frame,
    Prompt,
    Resource,
    ResourceNotFound,
    ResourceTemplate,
    Response,
    Tool,
    ToolError,
    prompt,
    resource,
    tool,
)
from example_site.desk import units


@tool
class Calculator(Tool):
    """Performs basic arithmetic operations."""

    read_only = True
    input_schema = {
        "type": "object",
        "properties": {
            "operation": {"type": "string", "enum": ["add", "subtract", "multiply", "divide"]},
            "a": {"type": "number"},
            "b": {"type": "number"},
        },
        "required": ["operation", "a", "b"],
    }
    operations = {
        "add": operator.add,
        "subtract": operator.sub,
        "multiply": operator.mul,
        "divide": operator.truediv,
    }

    def execute(self, params: Mapping[str, Any], frame: Frame) -> tuple[Response, Frame]:
        """Calculate, and store the result in the session."""
        if params["operation"] == "divide" and params["b"] == 0:
            raise ToolError("Cannot divide by zero")
        result = self.operations[params["operation"]](params["a"], params["b"])
        return Response.tool().text(str(result)), frame.assign("last_calculation", result)


@tool
class LastCalculation(Tool):
    """Returns the last result of the calculator in this session."""

    read_only = True

    def execute(self, frame: Frame) -> str:
        """Return the stored result; a revision without sessions stores none."""
        if "last_calculation" not in frame.assigns:
            raise ToolError("Nothing was calculated in this session. Use calculator first.")
        return str(frame.assigns["last_calculation"])


class Converted(BaseModel):
    """An amount in another unit."""

    amount: float
    unit: str
    quantity: str


@tool
class ConvertUnits(Tool):
    """Converts an amount from one unit into another. The resource units://all lists them."""

    title = "Convert units"
    read_only = True

    class Input(BaseModel):
        """The arguments of the tool."""

        amount: float
        source: Annotated[str, Field(description="The unit that the amount is in: mile")]
        target: Annotated[str, Field(description="The unit wanted: kilometre")]

    async def execute(self, params: Input) -> Converted:
        """Convert the amount; an error message is sent to the model."""
        try:
            amount = units.convert(params.amount, params.source, params.target)
        except ValueError as error:
            raise ToolError(f"{error}. Read units://all for those that exist.") from error
        quantity = units.quantity_of(params.source) or ""
        return Converted(amount=amount, unit=params.target, quantity=quantity)


@tool
class Timer(Tool):
    """Waits for some seconds and reports progress each second."""

    read_only = True

    async def execute(self, seconds: Annotated[int, Field(ge=1, le=60)], frame: Frame) -> str:
        """Wait. Cancellation is raised at the await, because the handler is async."""
        for second in range(seconds):
            await frame.client.aprogress(second, seconds, f"{seconds - second} s to go")
            await asyncio.sleep(1)
        return f"{seconds} s are over."


# Registration at run time: each note becomes a resource that is visible in this session only.


@tool
class TakeNote(Tool):
    """Stores a note as a resource of this session."""

    title = "Take a note"
    destructive = False

    def execute(
        self,
        title: Annotated[str, Field(pattern="^[a-z0-9-]+$", description="As shopping-list")],
        text: str,
        frame: Frame,
    ) -> tuple[Response, Frame]:
        """Store the text, and register the resource."""
        if frame.get_mcp_session_id() is None:
            raise ToolError("Notes last as long as a session, and this client has none.")
        uri = f"note://{title}"
        # One key for each note, so that concurrent calls do not overwrite each other.
        noted = frame.assign(uri, text).register_resource(uri, name=title, handler=read_note)
        return Response.tool().text("Noted.").resource_link(uri, title), noted


def read_note(uri: str, frame: Frame) -> str:
    """A note of this session."""
    return str(frame.assigns[uri])


# Resources.


@resource()
class Units(Resource):
    """All units by quantity."""

    uri = "units://all"
    title = "Units"

    async def read(self) -> dict[str, list[str]]:
        """The names of the units."""
        return {quantity: sorted(known) for quantity, known in units.UNITS.items()}


@resource()
class UnitsOfQuantity(ResourceTemplate):
    """The units of one quantity as multiples of its base unit."""

    uri_template = "units://{quantity}"
    name = "units_of_quantity"
    title = "Units of a quantity"

    async def read(self, quantity: str) -> dict[str, float]:
        """The table of factors."""
        if quantity not in units.UNITS:
            raise ResourceNotFound
        return units.UNITS[quantity]

    def complete_quantity(self, typed: str) -> list[str]:
        """The quantities that start with the given text."""
        return [quantity for quantity in units.UNITS if quantity.startswith(typed)]


# A prompt.


@prompt
class ExplainUnit(Prompt):
    """Explains a unit to a person who is used to other units."""

    title = "Explain a unit"

    async def get_messages(
        self, quantity: Literal["length", "mass", "volume"], unit: str
    ) -> Response:
        """The messages of the prompt."""
        return (
            Response.prompt(f"What a {unit} is")
            .user(f"Which units of {quantity} do you know?")
            .assistant(", ".join(units.UNITS[quantity]))
            .user(f"Explain the {unit} with things that I find at home.")
        )

    def complete_unit(self, typed: str, arguments: Mapping[str, str]) -> list[str]:
        """The units of the selected quantity, or all units."""
        chosen = arguments.get("quantity")
        known = (
            units.UNITS.get(chosen, {})
            if chosen
            else dict.fromkeys(unit for each in units.UNITS.values() for unit in each)
        )
        return [unit for unit in known if unit.startswith(typed)]
