"""Clients that speak real bytes through the real conversations, one file for each protocol."""
