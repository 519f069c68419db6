"""The next moment of a cron line after a given one, right on clock changes."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from franca.core.errors import Refused
from franca.core.model import Millis

MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


def next_moment(line: str, timezone: str, after: Millis) -> Millis:
    """The first moment later than `after` that the line names, on the clocks of `timezone`."""
    try:
        start = datetime.fromtimestamp(after / 1000, UTC).astimezone(ZoneInfo(timezone))
        moment = next(CronSim(MACROS.get(line.strip(), line), start))
    except (CronSimError, ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise Refused(f"not a cron line: {line!r} in {timezone!r}: {error}") from error
    except StopIteration:
        raise Refused(f"this cron line names no moment: {line!r}") from None
    return int(moment.timestamp() * 1000)
