"""The table of REST: which method and path carries which operation.

The document at /openapi.json is made from it. What an operation is for, what it takes and answers,
and who may call it, stands in `control/operations.py` alone. A variable of a path becomes the
member of the operation's parameters that `fill` names, in a list if the name ends in `[]`. `given`
is what is always said here. The other members come from the query of a GET, and from the body of
everything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from franca.control.operations import OPERATIONS, Operation

PREFIX: Final = "/api/v1"
VIA: Final = "rest"
"""What jobs that are submitted here came over."""


class Route(Struct, frozen=True):
    """One operation, as REST carries it. `special` names what answers it in another way."""

    method: str
    path: str
    operation: str
    fill: Mapping[str, str] = {}
    given: Mapping[str, object] = {}
    status: int = 200
    special: str = ""

    @property
    def is_read(self) -> bool:
        """Whether its parameters come in the query."""
        return self.method == "GET"

    @property
    def does(self) -> Operation:
        """What is carried out."""
        return OPERATIONS[self.operation]


_JOBS: Final = {"id": "jobs[]"}
_JOB: Final = {"id": "job"}
_QUEUE: Final = {"name": "queue"}
_QUEUES: Final = {"name": "queues[]"}
_ID: Final = {"id": "id"}
_HERE: Final = {"via": VIA}

ROUTES: Final = (
    # -- how it goes --------------------------------------------------------------------------
    Route("GET", "overview", "overview"),
    Route("GET", "counts", "counts"),
    Route("GET", "known", "known"),
    Route("GET", "errors", "errors.list"),
    Route("GET", "types", "types.list"),
    # -- jobs ---------------------------------------------------------------------------------
    Route("GET", "jobs", "jobs.search"),
    Route("POST", "jobs", "jobs.push", given=_HERE, status=201, special="submit"),
    Route("POST", "jobs/batch-submit", "jobs.submit", given=_HERE, special="submit many"),
    Route("POST", "jobs/actions", "jobs.act"),
    Route("GET", "jobs/{id}", "jobs.get", _JOB),
    Route("DELETE", "jobs/{id}", "jobs.delete", _JOBS, special="one"),
    Route("POST", "jobs/{id}/retry", "jobs.retry", _JOBS, special="one"),
    Route("POST", "jobs/{id}/kill", "jobs.kill", _JOBS, special="one"),
    Route("POST", "jobs/{id}/cancel", "jobs.cancel", _JOBS, special="one"),
    Route("GET", "operations", "operations.list"),
    Route("GET", "operations/{id}", "operations.show", _ID),
    Route("DELETE", "operations/{id}", "operations.stop", _ID),
    # -- queues -------------------------------------------------------------------------------
    Route("GET", "queues", "queues.list", given={"recent": True}),
    Route("GET", "queues/{name}", "queues.show", _QUEUE),
    Route("POST", "queues/{name}/pause", "queues.pause", _QUEUES),
    Route("POST", "queues/{name}/resume", "queues.resume", _QUEUES),
    Route("POST", "queues/{name}/purge", "queues.purge", _QUEUES),
    # -- workers ------------------------------------------------------------------------------
    Route("GET", "workers", "workers.find"),
    Route("POST", "workers/quiet", "workers.quiet"),
    Route("POST", "workers/stop", "workers.stop"),
    # -- schedules ----------------------------------------------------------------------------
    Route("GET", "schedules", "schedules.list"),
    Route("POST", "schedules", "schedules.create", status=201),
    Route("GET", "schedules/{id}", "schedules.show", _ID),
    Route("PUT", "schedules/{id}", "schedules.edit", _ID),
    Route("DELETE", "schedules/{id}", "schedules.delete", _ID),
    Route("POST", "schedules/{id}/run", "schedules.run", _ID),
    Route("POST", "schedules/{id}/pause", "schedules.pause", _ID),
    Route("POST", "schedules/{id}/resume", "schedules.resume", _ID),
    # -- work over HTTP -------------------------------------------------------------------------
    Route("POST", "lease", "work.lease", special="lease"),
    Route("POST", "jobs/{id}/ack", "work.ack", _JOB),
    Route("POST", "jobs/{id}/fail", "work.fail", _JOB),
    Route("POST", "jobs/{id}/heartbeat", "work.heartbeat", _JOB),
    Route("POST", "jobs/{id}/progress", "work.progress", _JOB),
    # -- the server -----------------------------------------------------------------------------
    Route("GET", "stats", "server.status"),
    Route("GET", "health", "health"),
    Route("GET", "history", "history"),
    Route("GET", "audit", "audit.list"),
    Route("POST", "server/stop", "server.stop", status=202),
    Route("POST", "server/backup", "server.backup"),
    Route("GET", "store/export", "store.export"),
    Route("POST", "store/import", "store.import"),
)
