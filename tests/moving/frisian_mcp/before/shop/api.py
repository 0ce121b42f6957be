from rest_framework import filters, permissions, serializers, viewsets

from shop.models import Product


class ProductSerializer(serializers.ModelSerializer):
    class Meta:
        model = Product
        fields = ["id", "name", "price", "stock"]


class ProductViewSet(viewsets.ModelViewSet):
    queryset = Product.objects.order_by("id")
    serializer_class = ProductSerializer
    permission_classes = [permissions.DjangoModelPermissions]
    filter_backends = [filters.SearchFilter]
    search_fields = ["name"]
