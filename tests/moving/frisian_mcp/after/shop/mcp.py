from django_mcp.rest import rest_tools
from mysite.urls import router

rest_tools(
    router,
    read_only=False,
    exclude=["product_destroy"],
    one_tool_per_view=True,
    group="shop",
)
