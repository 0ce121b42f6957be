"""A shop with a few orders, made by the factories that oscar has for tests of projects."""

from oscar.test import factories

PASSED_BY = ("auth.User",)
"""Models that are only read: the people of the run, and forms with passwords."""


def create():
    for _ in range(3):
        factories.create_order()
        product = factories.ProductFactory(stockrecords__num_in_stock=5)
        factories.ProductReviewFactory(product=product)
        factories.WishListFactory(owner=factories.UserFactory())
        factories.UserAddressFactory()
    factories.ConditionalOfferFactory()
    factories.create_voucher()
    factories.RangeFactory(products=[product])
