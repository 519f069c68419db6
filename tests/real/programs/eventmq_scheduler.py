"""The package's scheduler with one job in its memory from the start: `[queue, headers, interval, job]`.

The script has no way to be given one but a SCHEDULE, and a broker that schedules by itself hands
none on; the class is the same, and it is told of the job as a SCHEDULE would tell it.
"""

import json
import sys

from eventmq import conf
from eventmq.scheduler import Scheduler
from eventmq.utils.settings import import_settings

from tests.real.programs.jobs import say
from tests.support.eventmq import call

if __name__ == "__main__":
    address, queue, headers, interval_s, func, args = json.loads(sys.argv[1])
    import_settings()
    conf.REDIS_STARTUP_ERROR_HARD_KILL = False
    scheduler = Scheduler()
    job = call(func, *args).decode()
    scheduler.on_schedule("", [queue, headers, str(interval_s), job, ""])
    say("ready")
    scheduler.start(addr=address)
