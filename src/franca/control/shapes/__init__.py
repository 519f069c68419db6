"""What operations answer: jobs, queues, workers and what is known of them, in public words.

The members of these are the members of the JSON, over every way to ask. Moments are RFC 3339 in UTC
in members that end in `_at` or `_until`, spans are whole milliseconds in members that end in
`_ms`, rates are per second. None is "unknown", or "there is none".
"""

from franca.control.shapes.jobs import (
    Acted as Acted,
)
from franca.control.shapes.jobs import (
    Attempt as Attempt,
)
from franca.control.shapes.jobs import (
    Body as Body,
)
from franca.control.shapes.jobs import (
    Counts as Counts,
)
from franca.control.shapes.jobs import (
    Job as Job,
)
from franca.control.shapes.jobs import (
    JobPage as JobPage,
)
from franca.control.shapes.jobs import (
    JobPolicy as JobPolicy,
)
from franca.control.shapes.jobs import (
    JobRow as JobRow,
)
from franca.control.shapes.jobs import (
    Operation as Operation,
)
from franca.control.shapes.jobs import (
    OperationList as OperationList,
)
from franca.control.shapes.jobs import (
    Progress as Progress,
)
from franca.control.shapes.jobs import (
    Submitted as Submitted,
)
from franca.control.shapes.jobs import (
    SubmittedMany as SubmittedMany,
)
from franca.control.shapes.queues import (
    LastRun as LastRun,
)
from franca.control.shapes.queues import (
    Queue as Queue,
)
from franca.control.shapes.queues import (
    QueueList as QueueList,
)
from franca.control.shapes.queues import (
    QueueRow as QueueRow,
)
from franca.control.shapes.queues import (
    Recent as Recent,
)
from franca.control.shapes.queues import (
    RecentRuns as RecentRuns,
)
from franca.control.shapes.queues import (
    Running as Running,
)
from franca.control.shapes.queues import (
    Schedule as Schedule,
)
from franca.control.shapes.queues import (
    ScheduleList as ScheduleList,
)
from franca.control.shapes.queues import (
    Series as Series,
)
from franca.control.shapes.queues import (
    TypeList as TypeList,
)
from franca.control.shapes.queues import (
    TypeRow as TypeRow,
)
from franca.control.shapes.queues import (
    TypeShare as TypeShare,
)
from franca.control.shapes.queues import (
    Worker as Worker,
)
from franca.control.shapes.queues import (
    WorkerList as WorkerList,
)
from franca.control.shapes.server import (
    Crossing as Crossing,
)
from franca.control.shapes.server import (
    ErrorClass as ErrorClass,
)
from franca.control.shapes.server import (
    ErrorList as ErrorList,
)
from franca.control.shapes.server import (
    Facts as Facts,
)
from franca.control.shapes.server import (
    Health as Health,
)
from franca.control.shapes.server import (
    History as History,
)
from franca.control.shapes.server import (
    HistoryBounds as HistoryBounds,
)
from franca.control.shapes.server import (
    Known as Known,
)
from franca.control.shapes.server import (
    KnownValues as KnownValues,
)
from franca.control.shapes.server import (
    Notice as Notice,
)
from franca.control.shapes.server import (
    Overview as Overview,
)
from franca.control.shapes.server import (
    Rates as Rates,
)
from franca.control.shapes.server import (
    WorkerCounts as WorkerCounts,
)
