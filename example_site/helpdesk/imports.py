"""The import of tickets from a CSV file: a long call, which clients may run as a task."""

import csv
import io
from typing import Annotated

from pydantic import BaseModel, Field

from django_mcp import Frame, ToolError, tool
from example_site.helpdesk.models import Customer, Ticket

COLUMNS = {"customer", "subject", "description"}
MAX_ROWS = 100_000
REPORT_EVERY = 10  # Rows per progress report.


class ImportReport(BaseModel):
    """What was imported, and which rows were not."""

    imported: int
    skipped: list[str]


@tool(title="Import tickets", task_support="optional", permission="helpdesk.add_ticket")
def import_tickets(
    rows: Annotated[str, Field(description="CSV with the columns customer, subject, description")],
    frame: Frame,
) -> ImportReport:
    """Open a ticket for each row. Rows of unknown customers are skipped and reported."""
    found = list(csv.DictReader(io.StringIO(rows)))
    if not found or not {*found[0]} >= COLUMNS:
        raise ToolError(f"The first line has to name the columns {', '.join(sorted(COLUMNS))}.")
    if len(found) > MAX_ROWS:
        raise ToolError(f"There are {len(found)} rows; send at most {MAX_ROWS} at a time.")
    customers = {customer.name: customer for customer in Customer.objects.all()}
    imported, skipped = 0, []
    for number, row in enumerate(found, start=1):
        frame.cancellation.raise_if_requested()
        if (customer := customers.get(row["customer"])) is None:
            skipped.append(f"Row {number}: there is no customer {row['customer']!r}")
        else:
            texts = {name: row[name] for name in ("subject", "description")}
            Ticket.objects.create(customer=customer, **texts)
            imported += 1
        if number % REPORT_EVERY == 0 or number == len(found):
            frame.client.progress(number, len(found), f"{number} of {len(found)} rows")
    return ImportReport(imported=imported, skipped=skipped)
