"""`python -m bench bounds`: that memory and files are bounded, whatever peers do.

`fetch`: large jobs, given out before and after a restart. `watchers`: many who wait for one large
result. `input`: messages that are never finished, or only slowly. `strangers`: connections that say
nothing. `names`: queues that come and go. `space`: room on the disk that is no longer needed.
`crowds`: very many of one thing.
Every server has its default settings.
"""

from bench.bounds.crowds import crowds
from bench.bounds.fetch import fetch
from bench.bounds.input import unfinished
from bench.bounds.names import names
from bench.bounds.space import space
from bench.bounds.strangers import strangers
from bench.bounds.watchers import watchers
from bench.findings import play

SCENES = {
    "fetch": fetch,
    "watchers": watchers,
    "input": unfinished,
    "strangers": strangers,
    "names": names,
    "space": space,
    "crowds": crowds,
}


def main(arguments: list[str]) -> int:
    """Play the scenes; the exit code tells of missed limits if asked to."""
    return play("bounds", __doc__, SCENES, arguments)
