from rest_framework import serializers

from shop.models import Product


class ProductSerializer(serializers.ModelSerializer):
    class Meta:
        model = Product
        fields = ["id", "name", "price", "stock"]


class SearchSerializer(serializers.Serializer):
    text = serializers.CharField(help_text="A part of the name.")


class RestockSerializer(serializers.Serializer):
    pk = serializers.IntegerField()
    pieces = serializers.IntegerField(min_value=1)
