"""`python -m bench million`: that no operation stops the others, with a million jobs stored.

`looking`, `mutating`, `removing`: every command that touches much, while another connection says
BEAT every 5 ms. `due`: jobs whose time has come. `leases`: work whose time is over. `history`: what
the pages of the dashboard and searches take, and what they cost others.
"""

from bench.findings import play
from bench.million.due import due
from bench.million.heavy import looking, mutating, removing
from bench.million.history import history
from bench.million.leases import leases

SCENES = {
    "looking": looking,
    "mutating": mutating,
    "removing": removing,
    "due": due,
    "leases": leases,
    "history": history,
}


def main(arguments: list[str]) -> int:
    """Play the scenes; the exit code tells of missed limits if asked to."""
    return play("million", __doc__, SCENES, arguments)
