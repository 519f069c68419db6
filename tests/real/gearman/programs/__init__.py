"""Clients and workers of the Gearman libraries, as their users write them, to be run as processes.

A worker is told its functions, each with what it does: `reverse`, `empty`, `fail`, `raise`,
`progress` or `wait`. A client is told what to do, one line of JSON each: `do`, `background`,
`status` and what else its library offers. Those of the Node libraries are in tests/real/node.
"""
