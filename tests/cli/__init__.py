"""The command line, against a server that is one in all but sockets and disks."""
