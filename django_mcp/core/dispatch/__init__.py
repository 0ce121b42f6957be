"""Answering one message: dispatch, visibility, pagination, and the methods of the protocol."""
