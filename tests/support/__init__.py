"""What process-level tests share: a server to start and kill, and a client that hides nothing."""
