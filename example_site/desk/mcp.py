"""What lies on the desk, offered over MCP: tools, resources and a prompt, written as classes.

A class is worth it when several things belong together: a schema written by hand, a model of
the arguments, a completion. Its docstring is what the model reads. One instance answers all
calls, so what has to be remembered goes to the Frame.

Handlers which wait are ``async``: they occupy no thread. So are those which never block.
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
        """Calculate, and remember the result for the rest of the session."""
        if params["operation"] == "divide" and params["b"] == 0:
            raise ToolError("Cannot divide by zero")
        result = self.operations[params["operation"]](params["a"], params["b"])
        return Response.tool().text(str(result)), frame.assign("last_calculation", result)


@tool
class LastCalculation(Tool):
    """Tells the last result of the calculator in this session."""

    read_only = True

    def execute(self, frame: Frame) -> str:
        """Look it up; where the protocol has no sessions, nothing is remembered."""
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
        """What the tool takes."""

        amount: float
        source: Annotated[str, Field(description="The unit that the amount is in: mile")]
        target: Annotated[str, Field(description="The unit wanted: kilometre")]

    async def execute(self, params: Input) -> Converted:
        """Convert; the reason of a failure is for the model to read."""
        try:
            amount = units.convert(params.amount, params.source, params.target)
        except ValueError as error:
            raise ToolError(f"{error}. Read units://all for those that exist.") from error
        quantity = units.quantity_of(params.source) or ""
        return Converted(amount=amount, unit=params.target, quantity=quantity)


@tool
class Timer(Tool):
    """Waits for some seconds and reports each of them."""

    read_only = True

    async def execute(self, seconds: Annotated[int, Field(ge=1, le=60)], frame: Frame) -> str:
        """Wait. A cancelled call ends where it waits, since it is an async one."""
        for second in range(seconds):
            await frame.client.aprogress(second, seconds, f"{seconds - second} s to go")
            await asyncio.sleep(1)
        return f"{seconds} s are over."


# Registration at run time: each note becomes a resource which this session alone can see.


@tool
class TakeNote(Tool):
    """Takes a note, which becomes a resource of this session."""

    title = "Take a note"
    destructive = False

    def execute(
        self,
        title: Annotated[str, Field(pattern="^[a-z0-9-]+$", description="As shopping-list")],
        text: str,
        frame: Frame,
    ) -> tuple[Response, Frame]:
        """Remember the text, and register the resource that shows it."""
        if frame.get_mcp_session_id() is None:
            raise ToolError("Notes last as long as a session, and this client has none.")
        uri = f"note://{title}"
        # A key for each note: calls which run at once then never overwrite each other's.
        noted = frame.assign(uri, text).register_resource(uri, name=title, handler=read_note)
        return Response.tool().text("Noted.").resource_link(uri, title), noted


def read_note(uri: str, frame: Frame) -> str:
    """A note of this session."""
    return str(frame.assigns[uri])


# Resources.


@resource()
class Units(Resource):
    """All units, by what they measure."""

    uri = "units://all"
    title = "Units"

    async def read(self) -> dict[str, list[str]]:
        """Their names."""
        return {quantity: sorted(known) for quantity, known in units.UNITS.items()}


@resource()
class UnitsOfQuantity(ResourceTemplate):
    """The units of one quantity, each as a multiple of the basic one."""

    uri_template = "units://{quantity}"
    name = "units_of_quantity"
    title = "Units of a quantity"

    async def read(self, quantity: str) -> dict[str, float]:
        """The table."""
        if quantity not in units.UNITS:
            raise ResourceNotFound
        return units.UNITS[quantity]

    def complete_quantity(self, typed: str) -> list[str]:
        """The quantities which begin like this."""
        return [quantity for quantity in units.UNITS if quantity.startswith(typed)]


# A prompt.


@prompt
class ExplainUnit(Prompt):
    """Explains a unit to somebody who grew up with others."""

    title = "Explain a unit"

    async def get_messages(
        self, quantity: Literal["length", "mass", "volume"], unit: str
    ) -> Response:
        """The conversation to begin with."""
        return (
            Response.prompt(f"What a {unit} is")
            .user(f"Which units of {quantity} do you know?")
            .assistant(", ".join(units.UNITS[quantity]))
            .user(f"Explain the {unit} with things that I find at home.")
        )

    def complete_unit(self, typed: str, arguments: Mapping[str, str]) -> list[str]:
        """The units of the quantity that was chosen before, or of all."""
        chosen = arguments.get("quantity")
        known = (
            units.UNITS.get(chosen, {})
            if chosen
            else dict.fromkeys(unit for each in units.UNITS.values() for unit in each)
        )
        return [unit for unit in known if unit.startswith(typed)]
