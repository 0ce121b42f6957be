"""The copy of the contracts of stores, as the page about stores describes it."""

from tests.stores.contracts import EventStoreContract, SessionStoreContract

__all__ = ["EventStoreContract", "SessionStoreContract"]
