"""Benchmarks: how fast the server is, compared with what its event loop could reach at all."""
