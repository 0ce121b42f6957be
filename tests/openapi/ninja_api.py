"""An API of Django Ninja for the tests: every kind of callback and parameter."""

from typing import Any

from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.urls import path
from ninja import File, Form, Header, NinjaAPI, Query, Router, Schema, Status, UploadedFile
from ninja.errors import HttpError
from ninja.pagination import LimitOffsetPagination, paginate
from ninja.security import (
    APIKeyHeader,
    APIKeyQuery,
    HttpBearer,
    django_auth,
    django_auth_is_staff,
    django_auth_superuser,
)
from ninja.throttling import AnonRateThrottle
from pydantic import field_validator

TOKENS = {"token-staff": "staff", "token-agent": "agent"}


class Bearer(HttpBearer):
    def authenticate(self, request: HttpRequest, token: str) -> Any:
        return User.objects.filter(username=TOKENS.get(token, "")).first()


class AsyncBearer(HttpBearer):
    async def authenticate(self, request: HttpRequest, token: str) -> Any:
        return await User.objects.filter(username=TOKENS.get(token, "")).afirst()


class Key(APIKeyHeader):
    param_name = "X-Api-Key"

    def authenticate(self, request: HttpRequest, key: str | None) -> Any:
        return f"device {key}" if key in ("one", "two") else None


class KeyInQuery(APIKeyQuery):
    param_name = "api_key"

    def authenticate(self, request: HttpRequest, key: str | None) -> Any:
        return key == "one" or None


def of_team(request: HttpRequest) -> Any:
    """A function: nobody but its author knows what it reads."""
    return request.user.is_authenticated and request.user.get_username() == "agent"


class Item(Schema):
    id: int
    name: str
    price: float
    stock: int = 0
    color: str = "red"
    size: str = "M"


class ItemIn(Schema):
    name: str
    price: float
    stock: int = 0

    @field_validator("name")
    @classmethod
    def not_reserved(cls, name: str) -> str:
        if name == "Reserved":
            raise ValueError("This name is reserved.")
        return name


class ItemPatch(Schema):
    name: str | None = None
    price: float | None = None


class Filters(Schema):
    search: str = ""
    color: str | None = None
    ids: list[int] | None = None


class Problem(Schema):
    message: str


ITEMS: dict[int, dict[str, Any]] = {}


def reset() -> None:
    """Make the items as they are at first."""
    ITEMS.clear()
    for number, name in enumerate(("Tea", "Cup", "Pot"), 1):
        ITEMS[number] = Item(id=number, name=name, price=number, stock=number).dict()


api = NinjaAPI(title="Shop", version="1.0.0", auth=[django_auth, Bearer()])


def item_of(item_id: int) -> dict[str, Any]:
    if item_id not in ITEMS:
        raise HttpError(404, "There is no such item.")
    return ITEMS[item_id]


@api.get("/items", response=list[Item])
@paginate(LimitOffsetPagination)
def list_items(request: HttpRequest, filters: Query[Filters]) -> Any:
    """List the items that are for sale."""
    rows = [row for row in ITEMS.values() if filters.search.lower() in row["name"].lower()]
    return [row for row in rows if filters.ids is None or row["id"] in filters.ids]


@api.get("/items/{int:item_id}", response=Item)
def get_item(request: HttpRequest, item_id: int) -> Any:
    return item_of(item_id)


@api.post("/items", response={201: Item})
def create_item(request: HttpRequest, payload: ItemIn) -> Any:
    ITEMS[99] = Item(id=99, **payload.dict()).dict()
    return Status(201, ITEMS[99])


@api.post("/copies", response=Item)
def copy_item(request: HttpRequest, payload: ItemIn) -> Any:
    """Answer a POST with 200, as Django Ninja does where no status is declared."""
    return {"id": 98, **payload.dict()}


@api.patch("/items/{int:item_id}", response={200: Item, 409: Problem})
def change_item(request: HttpRequest, item_id: int, payload: ItemPatch) -> Any:
    item = item_of(item_id)
    if payload.name == "Sold":
        return Status(409, {"message": "It is sold."})
    item.update(payload.dict(exclude_unset=True))
    return Status(200, item)


@api.delete("/items/{int:item_id}", response={204: None}, auth=django_auth_is_staff)
def delete_item(request: HttpRequest, item_id: int) -> Any:
    item_of(item_id)
    del ITEMS[item_id]
    return Status(204, None)


@api.get("/open", auth=None)
def is_open(request: HttpRequest, x_color: Header[str] = "none") -> Any:
    return {"user": str(request.user), "color": x_color, "sent": sorted(request.COOKIES)}


@api.get("/devices", auth=[Key()])
def devices(request: HttpRequest) -> Any:
    return {"auth": str(request.auth)}  # type: ignore[attr-defined]


@api.get("/queried", auth=KeyInQuery())
def queried(request: HttpRequest) -> Any:
    return {"auth": True}


@api.get("/superusers", auth=django_auth_superuser)
def superusers(request: HttpRequest) -> Any:
    return {"user": str(request.user)}


@api.get("/team", auth=of_team)
def team(request: HttpRequest) -> Any:
    return {"user": str(request.user)}


@api.get("/whoami", auth=[django_auth, AsyncBearer()])
async def whoami(request: HttpRequest) -> Any:
    return {"auth": str(request.auth)}  # type: ignore[attr-defined]


@api.post("/labels")
def print_label(request: HttpRequest, text: Form[str], copies: Form[int] = 1) -> Any:
    return {"text": text, "copies": copies}


@api.post("/photos")
def add_photo(request: HttpRequest, title: Form[str], photo: File[UploadedFile]) -> Any:
    return {"title": title, "size": photo.size, "type": photo.content_type}


@api.get("/report")
def report(request: HttpRequest) -> Any:
    disposition = {"Content-Disposition": 'attachment; filename="all.csv"'}
    return HttpResponse(b"a,b", content_type="text/csv", headers=disposition)


@api.get("/hidden", include_in_schema=False)
def hidden(request: HttpRequest) -> Any:
    return {}


archive = Router(tags=["archive"])
shelves = Router()


@shelves.get("/{shelf}/boxes/{box_id}")
def get_box(request: HttpRequest, shelf: str, box_id: int) -> Any:
    """Look at one box of a shelf."""
    return {"shelf": shelf, "box": box_id}


class BoxIn(Schema):
    label: str


@shelves.post("/{shelf}/boxes", response={201: dict[str, Any]})
def add_box(request: HttpRequest, shelf: str, payload: BoxIn) -> Any:
    return Status(201, {"shelf": shelf, "id": 7, "label": payload.label, "full": False})


@archive.get("/slow", auth=None, throttle=[AnonRateThrottle("2/h")])
def slow(request: HttpRequest) -> Any:
    return {"slow": True}


archive.add_router("/shelves", shelves)
api.add_router("/archive", archive)

urlpatterns = [path("api/v1/", api.urls)]
