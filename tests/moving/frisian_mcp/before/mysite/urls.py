from django.urls import include, re_path
from rest_framework.routers import SimpleRouter

from shop.api import ProductViewSet

router = SimpleRouter()
router.register("products", ProductViewSet)
urlpatterns = [*router.urls, re_path(r"^mcp/?", include("frisian_mcp.urls"))]
