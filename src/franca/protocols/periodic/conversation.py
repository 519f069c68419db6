"""One Periodic connection, whole: which command is which verb, and what the broker has to tell."""

from __future__ import annotations

from franca.core.events import Event, Finished, Granted, LeaseLost, Progressed, Woken
from franca.core.model import Millis, Session
from franca.protocols.periodic import words
from franca.protocols.periodic.binary import CrcSpeech
from franca.protocols.periodic.dialect import Verbs
from franca.protocols.periodic.speech import Speech
from franca.protocols.periodic.working import Working


class PeriodicConversation(Working):
    """The dialogue with one client or worker: any of them may say anything.

    One family of workers registers as clients, and one library lets its workers submit.
    """

    def _verbs_of(self, speech: Speech) -> Verbs:
        """What may be said in a dialect."""
        return ALL if isinstance(speech, CrcSpeech) else DOCUMENT

    def tell(self, session: Session, event: Event, now: Millis) -> None:
        """Something happened to a job that was asked for, run or watched here."""
        if isinstance(event, Granted):
            self.say_granted(event, now)
        elif self.link.closing:
            return
        elif isinstance(event, Finished):
            self.say_finished(event, now)
        elif isinstance(event, Progressed):
            self.say_progressed(event, now)
        elif isinstance(event, Woken):
            self.say_woken(event)
        elif isinstance(event, LeaseLost):
            self._has_room(now)


_C = PeriodicConversation
# The document's; the older dialects know no more.
DOCUMENT: Verbs = {
    words.GRAB_JOB: _C.on_grab_job,
    words.SCHED_LATER: _C.on_sched_later,
    words.WORK_DONE: _C.on_work_done,
    words.WORK_FAIL: _C.on_work_fail,
    words.CAN_DO: _C.on_can_do,
    words.CANT_DO: _C.on_cant_do,
    words.PING: _C.on_ping,
    words.SLEEP: _C.on_sleep,
    words.SUBMIT_JOB: _C.on_submit_job,
    words.STATUS: _C.on_status,
    words.DROP_FUNC: _C.on_drop_func,
    words.REMOVE_JOB: _C.on_remove_job,
    words.DUMP: _C.on_dump,
    words.LOAD: _C.on_load,
}
ALL: Verbs = {
    **DOCUMENT,
    words.SHUTDOWN: _C.on_shutdown,
    words.BROADCAST: _C.on_broadcast,
    words.CONFIG_GET: _C.on_config_get,
    words.CONFIG_SET: _C.on_config_set,
    words.RUN_JOB: _C.on_run_job,
    words.ACQUIRE: _C.on_acquire,
    words.RELEASE: _C.on_release,
    words.RECV_DATA: _C.on_recv_data,
    words.WORK_DATA: _C.on_work_data,
    words.JOB_ASSIGNED: _C.on_job_assigned,
    words.JOB_UNASSIGNED: _C.on_job_unassigned,
}
