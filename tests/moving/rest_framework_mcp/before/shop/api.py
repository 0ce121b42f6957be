from djangorestframework_mcp.decorators import mcp_viewset
from rest_framework import serializers, viewsets

from shop.models import Product


class ProductSerializer(serializers.ModelSerializer):
    class Meta:
        model = Product
        fields = ["id", "name", "price"]


@mcp_viewset()
class ProductViewSet(viewsets.ReadOnlyModelViewSet):
    queryset = Product.objects.order_by("id")
    serializer_class = ProductSerializer
