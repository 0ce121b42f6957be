from django.contrib import admin
from django_admin_mcp import MCPAdminMixin

from shop.models import Product


@admin.register(Product)
class ProductAdmin(MCPAdminMixin, admin.ModelAdmin):
    mcp_expose = True
    list_display = ["name", "price", "stock"]
    search_fields = ["name"]
