"""The number of a ticket, as an argument of tools."""

from typing import Annotated

from pydantic import Field

from django_mcp import ToolError

Number = Annotated[int, Field(description="The number of a ticket")]


def no_ticket(number: int) -> ToolError:
    """The error for an unknown number; it tells the model what to do instead."""
    return ToolError(f"There is no ticket {number}. Use search_tickets to find its number.")
