"""The web side: REST, health, events and the dashboard, inside of the server's own loop."""
