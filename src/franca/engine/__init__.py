"""The turn: the broker and all conversations, run one step at a time. Still no I/O."""
