"""The real client libraries, unmodified, against a real server."""
