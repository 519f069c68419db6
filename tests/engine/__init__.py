"""The turn: links, their share of it, and what time brings."""
