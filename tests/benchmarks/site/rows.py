"""Rows of five small fields, in each form that a tool may return: about 100 kB of JSON.

It depends on pydantic only: the peers' projects import it in environments of their own. The rows
are a member of an object, because django-mcpz sends a list as text only.
"""

from dataclasses import dataclass

from pydantic import BaseModel
from typing_extensions import TypedDict

from tests.benchmarks.calls import TABLE_ROWS


@dataclass
class ArticleData:
    """A row as a dataclass."""

    id: int
    name: str
    category: str
    price: float
    in_stock: bool


class ArticleDict(TypedDict):
    """A row as a dict with known keys."""

    id: int
    name: str
    category: str
    price: float
    in_stock: bool


class ArticleModel(BaseModel):
    """A row as a pydantic model."""

    id: int
    name: str
    category: str
    price: float
    in_stock: bool


class DictPage(TypedDict):
    """A result of dicts."""

    rows: list[ArticleDict]


@dataclass
class DataPage:
    """A result of dataclasses."""

    rows: list[ArticleData]


class ModelPage(BaseModel):
    """A result of models."""

    rows: list[ArticleModel]


_ROWS: list[ArticleDict] = [
    {
        "id": number,
        "name": f"Article number {number}",
        "category": "Office supplies and paper",
        "price": number / 4,
        "in_stock": True,
    }
    for number in range(TABLE_ROWS)
]
DICT_PAGE: DictPage = {"rows": _ROWS}
DATA_PAGE = DataPage([ArticleData(**each) for each in _ROWS])
MODEL_PAGE = ModelPage(rows=[ArticleModel(**each) for each in _ROWS])

USER_COLUMNS = ("pk", "username", "first_name", "email", "is_active")
"""The columns of as many users, which a tool reads from the database."""
