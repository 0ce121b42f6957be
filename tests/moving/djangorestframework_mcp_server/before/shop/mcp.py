from rest_framework_mcp import MCPServer
from rest_framework_mcp.auth.backends import AllowAnyBackend
from rest_framework_services.types.selector_spec import SelectorKind, SelectorSpec
from rest_framework_services.types.service_spec import ServiceSpec

from shop import serializers, services

server = MCPServer(name="shop", auth_backend=AllowAnyBackend())
server.register_selector_tool(
    name="find_products",
    description="Find products by a part of their name.",
    input_serializer=serializers.SearchSerializer,
    spec=SelectorSpec(
        kind=SelectorKind.LIST,
        selector=services.find_products,
        output_serializer=serializers.ProductSerializer,
    ),
)
server.register_service_tool(
    name="restock_product",
    description="Add pieces to the stock of a product.",
    spec=ServiceSpec(
        service=services.restock_product,
        input_serializer=serializers.RestockSerializer,
    ),
)
