"""The stores: one contract for all of them, and what only SQLite promises."""
