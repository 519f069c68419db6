"""The rules of jobs. Pure: no protocol, no database, no clock, no randomness of its own."""
