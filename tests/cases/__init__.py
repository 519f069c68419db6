"""Cases that were once wrong, each shown to a real server over a socket or the command line.

A case is a test marked `case(N)`, where N is the number under which it was found. It uses no flag, setting or
command that the commit it was found in lacks, so that it fails there by its own assertion:
`make prove NAME=cases AGAINST=COMMIT` starts that commit's server instead of this one. A case that takes
more than a few seconds, or much memory, is also marked `long` and is left to `make prove NAME=cases`.
"""
