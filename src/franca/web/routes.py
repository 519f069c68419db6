"""The table of REST: which method and path carries which operation, and the role that it needs.

The document at /openapi.json is made from it. A variable of a path becomes the member of the
operation's parameters that `fill` names, in a list if the name ends in `[]`. The other members come
from the query of a GET, and from the body of everything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from franca.control.caller import ADMIN, OPERATOR, VIEWER

PREFIX: Final = "/api/v1"


class Route(Struct, frozen=True):
    """One operation, as REST carries it. `special` names what answers it in another way."""

    method: str
    path: str
    operation: str
    role: str
    summary: str
    fill: Mapping[str, str] = {}
    status: int = 200
    special: str = ""

    @property
    def is_read(self) -> bool:
        """Whether its parameters come in the query."""
        return self.method == "GET"


_ID: Final = {"id": "jobs[]"}
_JOB: Final = {"id": "job"}
_QUEUE: Final = {"name": "queues[]"}

ROUTES: Final = (
    # -- jobs ---------------------------------------------------------------------------------
    Route("GET", "jobs", "jobs.find", VIEWER, "Find jobs, a page at a time"),
    Route("POST", "jobs", "jobs.push", OPERATOR, "Submit a job", status=201, special="submit"),
    Route("GET", "jobs/{id}", "jobs.show", VIEWER, "Show a job, by id or name", _JOB),
    Route("DELETE", "jobs/{id}", "jobs.delete", OPERATOR, "Delete a job that does not run", _ID),
    Route("POST", "jobs/{id}/retry", "jobs.retry", OPERATOR, "Run a job now", _ID),
    Route("POST", "jobs/{id}/kill", "jobs.kill", OPERATOR, "Give a job up", _ID),
    Route("POST", "jobs/{id}/cancel", "jobs.cancel", OPERATOR, "Cancel a job", _ID),
    Route("POST", "jobs/retry", "jobs.retry", OPERATOR, "Run many jobs now"),
    Route("POST", "jobs/kill", "jobs.kill", OPERATOR, "Give many jobs up"),
    Route("POST", "jobs/cancel", "jobs.cancel", OPERATOR, "Cancel many jobs"),
    Route("POST", "jobs/delete", "jobs.delete", OPERATOR, "Delete many jobs"),
    # -- queues -------------------------------------------------------------------------------
    Route("GET", "queues", "queues.list", VIEWER, "List the queues"),
    Route("POST", "queues/{name}/pause", "queues.pause", OPERATOR, "Pause a queue", _QUEUE),
    Route("POST", "queues/{name}/resume", "queues.resume", OPERATOR, "Resume a queue", _QUEUE),
    Route("POST", "queues/{name}/purge", "queues.purge", OPERATOR, "Cancel its ready jobs", _QUEUE),
    # -- workers ------------------------------------------------------------------------------
    Route("GET", "workers", "workers.list", VIEWER, "List the workers"),
    Route("POST", "workers/quiet", "workers.quiet", OPERATOR, "Have workers take no more jobs"),
    Route("POST", "workers/stop", "workers.stop", OPERATOR, "Have workers finish and leave"),
    # -- work over HTTP -------------------------------------------------------------------------
    Route("POST", "lease", "work.lease", OPERATOR, "Take a job to run", special="lease"),
    Route("POST", "jobs/{id}/ack", "work.ack", OPERATOR, "Say that a job is done", _JOB),
    Route("POST", "jobs/{id}/fail", "work.fail", OPERATOR, "Say that a run failed", _JOB),
    Route("POST", "jobs/{id}/heartbeat", "work.heartbeat", OPERATOR, "Hold a job longer", _JOB),
    Route("POST", "jobs/{id}/progress", "work.progress", OPERATOR, "Say how far a run is", _JOB),
    # -- the server -----------------------------------------------------------------------------
    Route("GET", "server", "server.status", VIEWER, "How the server is"),
    Route("POST", "server/stop", "server.stop", ADMIN, "Stop the server", status=202),
    Route("POST", "server/backup", "server.backup", ADMIN, "Copy the store into a new file"),
    Route("GET", "audit", "audit.list", ADMIN, "What operators did last"),
)
