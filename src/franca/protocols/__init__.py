"""The wires: one folder per protocol, each pure, none knowing another."""
