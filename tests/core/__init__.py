"""The rules of the core, one file for each part of it. No test waits: time is an argument."""
