from django.urls import include, path
from rest_framework.routers import SimpleRouter

from shop.api import ProductViewSet

router = SimpleRouter()
router.register("products", ProductViewSet)
urlpatterns = [*router.urls, path("mcp/", include("djangorestframework_mcp.urls"))]
