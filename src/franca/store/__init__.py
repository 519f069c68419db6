"""The memory of the server: where changes become durable and jobs come back from."""
