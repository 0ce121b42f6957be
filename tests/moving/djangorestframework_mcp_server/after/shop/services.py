from shop.models import Product


def find_products(text):
    return Product.objects.filter(name__icontains=text).order_by("name")


def restock_product(*, data):
    product = Product.objects.select_for_update().get(pk=data["pk"])
    product.stock += data["pieces"]
    product.save(update_fields=["stock"])
    return {"stock": product.stock}
