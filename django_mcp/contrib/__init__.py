"""Optional apps, each for ``INSTALLED_APPS``. Nothing outside of them imports them."""
