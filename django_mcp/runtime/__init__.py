"""Django at run time: threads, transactions, signing, start and stop, forms."""
