"""How a handler is called, and what it sees."""
