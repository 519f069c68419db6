"""The whole server but its sockets, files and clock, driven by one seed: `make sim`."""
