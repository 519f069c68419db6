"""MemoDB: jobs routed by service name, over the request and reply sockets of nanomsg and NNG."""
