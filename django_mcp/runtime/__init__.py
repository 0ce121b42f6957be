"""Where Django code runs: threads, transactions, signing, the life of a process, forms."""
