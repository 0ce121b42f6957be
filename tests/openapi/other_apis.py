"""APIs of Ninja Extra and of django-modern-rest, and two versions of an API of Django Ninja."""

from typing import Any

import pydantic
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.urls import path
from dmr import Body, Controller, Path, Query
from dmr.plugins.pydantic import PydanticFastSerializer
from dmr.routing import Router
from dmr.security.django_session import DjangoSessionAsyncAuth, DjangoSessionSyncAuth
from ninja import NinjaAPI, Schema, Status
from ninja.security import django_auth
from ninja_extra import ControllerBase, NinjaExtraAPI, api_controller, http_get, http_post
from ninja_extra import permissions as extra_permissions


class CupIn(Schema):
    name: str
    price: float


class Cup(CupIn):
    id: int
    color: str = "red"


@api_controller("/cups", tags=["cups"], auth=django_auth)
class CupController(ControllerBase):
    @http_get("/", response=list[Cup])
    def list_cups(self, search: str = "") -> Any:
        """List the cups."""
        names = [name for name in ("Blue", "Green") if search.lower() in name.lower()]
        return [{"id": len(name), "name": name, "price": 3} for name in names]

    @http_post("/", response={201: Cup})
    def create_cup(self, payload: CupIn) -> Any:
        return Status(201, {"id": 9, **payload.dict()})

    @http_get("/{int:cup_id}/async", response=Cup)
    async def get_cup(self, cup_id: int) -> Any:
        return {"id": cup_id, "name": "Blue", "price": 3}

    @http_get("/staff", permissions=[extra_permissions.IsAdminUser])
    def of_staff(self) -> Any:
        return {"user": str(self.context.request.user)}  # type: ignore[union-attr]


extra = NinjaExtraAPI(urls_namespace="extra")
extra.register_controllers(CupController)


class PotIn(pydantic.BaseModel):
    name: str = pydantic.Field(max_length=5)
    price: float


class Pot(PotIn):
    id: int
    color: str = "red"


class Search(pydantic.BaseModel):
    search: str = ""


class Key(pydantic.BaseModel):
    pot_id: int


class Pots(Controller[PydanticFastSerializer]):
    auth = (DjangoSessionSyncAuth(),)

    def get(self, parsed_query: Query[Search]) -> list[Pot]:
        """List the pots."""
        names = [each for each in ("Iron", "Clay") if parsed_query.search.lower() in each.lower()]
        return [Pot(id=number, name=name, price=3) for number, name in enumerate(names)]

    def post(self, parsed_body: Body[PotIn]) -> Pot:
        return Pot(id=9, **parsed_body.model_dump())


class OnePot(Controller[PydanticFastSerializer]):
    auth = (DjangoSessionAsyncAuth(),)

    async def get(self, parsed_path: Path[Key]) -> Pot:
        """Look at a pot."""
        return Pot(id=parsed_path.pot_id, name="Iron", price=3)


modern = Router(
    "modern/",
    [path("pots/", Pots.as_view()), path("pots/<int:pot_id>/", OnePot.as_view())],
)

first = NinjaAPI(version="1.0.0", urls_namespace="first")
second = NinjaAPI(version="2.0.0", urls_namespace="second")


@first.get("/teas")
def list_teas(request: HttpRequest) -> Any:
    return {"version": 1, "path": request.path}


@second.get("/teas")
def list_teas_of_two(request: HttpRequest) -> Any:
    return {"version": 2, "path": request.path}


@second.get("/users/{username}/teas", auth=django_auth)
def teas_of(request: HttpRequest, username: str) -> Any:
    return {"user": User.objects.get(username=username).pk, "caller": str(request.user)}


urlpatterns = [
    path("extra/", extra.urls),
    modern.to_urlpatterns(namespace="modern"),
    path("v1/", first.urls),
    path("v2/", second.urls),
    path("latest/", second.urls),
]
