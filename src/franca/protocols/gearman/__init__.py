"""The Gearman protocol: binary packets and text commands on one port, pure."""
