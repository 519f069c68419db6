"""What clients may read and change of a running server: CONFIG_GET and CONFIG_SET."""

from __future__ import annotations

from typing import Final

DEFAULTS: Final = {
    "timeout": 600,
    "lock-timeout": 300,
    "assign-wait": 2,
    "keepalive": 120,
    "max-batch-size": 500,
    "max-pool-size": 10,
    "run-job-aggressive": 0,
}
_LEAST: Final = {"timeout": 60, "keepalive": 120}
MOST: Final = 0x7FFF_FFFF


class Config:
    """The settings by the names that the original gave them; they last as long as the server.

    `timeout` and `keepalive` do what they say. The others steer what this server does in another
    way, and are only remembered. No client can make the two so small that others cannot work:
    a minute for a job, and as long as the original waits for a word of a peer.
    """

    def __init__(self) -> None:
        self._values = dict(DEFAULTS)
        self.timeout_s = DEFAULTS["timeout"]
        self.keepalive_ms = 1000 * DEFAULTS["keepalive"]

    def get(self, key: str) -> int:
        """The value of a setting; 0 for one that is not known."""
        return self._values.get(key, 0)

    def set(self, key: str, value: int) -> None:
        """Change a setting; one that is not known stays so."""
        if key not in self._values:
            return
        self._values[key] = max(_LEAST.get(key, 0), min(value, MOST))
        self.timeout_s = self._values["timeout"]
        self.keepalive_ms = 1000 * self._values["keepalive"]
