"""The world: sockets, threads, files, the clock and chance. The only impure layer."""
