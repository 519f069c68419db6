"""The command `franca`: starts a server, and speaks to a running one through its control socket."""
