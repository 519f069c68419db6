"""What operators may ask of a running server, in one place, whatever carries the question."""
