"""An app which says much on standard output, where nothing but messages belongs."""
