from django_mcp.openapi import openapi_tools
from shop.api import api

openapi_tools(api, include=["*_product*"], read_only=False)
