from rest_framework.routers import SimpleRouter

from shop.api import ProductViewSet

router = SimpleRouter()
router.register("products", ProductViewSet)
urlpatterns = router.urls
