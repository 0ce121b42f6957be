from ninja import NinjaAPI, Schema, Status
from ninja.security import HttpBearer, django_auth

from shop.models import Product


class Bearer(HttpBearer):
    def authenticate(self, request, token):
        return "the till" if token == "secret" else None


class ProductOut(Schema):
    id: int
    name: str
    price: float
    stock: int


class ProductIn(Schema):
    name: str
    price: float


api = NinjaAPI(auth=[django_auth, Bearer()])


@api.get("/products", response=list[ProductOut])
def list_products(request, search: str = ""):
    """List the products, by a part of their names."""
    return Product.objects.filter(name__icontains=search).order_by("id")


@api.post("/products", response={201: ProductOut})
def create_product(request, data: ProductIn):
    return Status(201, Product.objects.create(**data.dict()))
