"""Workers of the Python libraries, as their users write them, to be run as processes."""
