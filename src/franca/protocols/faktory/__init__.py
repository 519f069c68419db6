"""The Faktory work protocol, version 2: lines in, RESP out, pure."""
