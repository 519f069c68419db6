"""Every packet that a peer may send, and what is done with it, by its type."""

from __future__ import annotations

from typing import Final

from franca.protocols.gearman import common, status, work, workers
from franca.protocols.gearman.conversation import Act
from franca.protocols.gearman.jobs import HIGH, LOW
from franca.protocols.gearman.submit import Submission
from franca.protocols.gearman.wire import TYPES, Packet

_ACTS: Final[dict[int, Act]] = {
    Packet.CAN_DO: workers.on_can_do,
    Packet.CANT_DO: workers.on_cant_do,
    Packet.RESET_ABILITIES: workers.on_reset_abilities,
    Packet.PRE_SLEEP: workers.on_pre_sleep,
    Packet.SUBMIT_JOB: Submission(background=False).now,
    Packet.GRAB_JOB: workers.on_grab,
    Packet.WORK_STATUS: work.on_status,
    Packet.WORK_COMPLETE: work.on_complete,
    Packet.WORK_FAIL: work.on_fail,
    Packet.GET_STATUS: status.on_get_status,
    Packet.ECHO_REQ: common.on_echo,
    Packet.SUBMIT_JOB_BG: Submission(background=True).now,
    Packet.SUBMIT_JOB_HIGH: Submission(HIGH, background=False).now,
    Packet.SET_CLIENT_ID: common.on_client_id,
    Packet.CAN_DO_TIMEOUT: workers.on_can_do_timeout,
    Packet.WORK_EXCEPTION: work.on_exception,
    Packet.OPTION_REQ: common.on_option,
    Packet.WORK_DATA: work.on_data,
    Packet.WORK_WARNING: work.on_warning,
    Packet.GRAB_JOB_UNIQ: workers.on_grab_uniq,
    Packet.SUBMIT_JOB_HIGH_BG: Submission(HIGH, background=True).now,
    Packet.SUBMIT_JOB_LOW: Submission(LOW, background=False).now,
    Packet.SUBMIT_JOB_LOW_BG: Submission(LOW, background=True).now,
    Packet.SUBMIT_JOB_SCHED: Submission(background=True).at_match,
    Packet.SUBMIT_JOB_EPOCH: Submission(background=True).at_epoch,
    Packet.SUBMIT_REDUCE_JOB: Submission(background=False).reduced,
    Packet.SUBMIT_REDUCE_JOB_BACKGROUND: Submission(background=True).reduced,
    Packet.GRAB_JOB_ALL: workers.on_grab_all,
    Packet.GET_STATUS_UNIQUE: status.on_get_status_unique,
}

PACKETS: Final[tuple[Act | None, ...]] = tuple(_ACTS.get(number) for number in range(TYPES))
"""By number; None for those that the original answers with "Command not expected"."""
