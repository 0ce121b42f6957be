from typing import Annotated

from django.db import transaction
from pydantic import Field

from django_mcp import tool
from shop import serializers, services


@tool(read_only=True)
def find_products(text: Annotated[str, Field(description="A part of the name.")]):
    """Find products by a part of their name."""
    found = services.find_products(text)
    return serializers.ProductSerializer(found, many=True).data


@tool(destructive=False)
@transaction.atomic
def restock_product(pk: int, pieces: Annotated[int, Field(ge=1)]):
    """Add pieces to the stock of a product."""
    return services.restock_product(data={"pk": pk, "pieces": pieces})
