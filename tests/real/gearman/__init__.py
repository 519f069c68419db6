"""Real Gearman clients, workers and admin tools, unchanged, as processes against a real server."""
