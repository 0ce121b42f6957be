"""Messages between workers: the message bus, notifications, answers to pending requests."""
