"""Every packet that a peer may send, and what is done with it, by its type."""

from __future__ import annotations

from typing import Final

from franca.protocols.gearman import clients, workers
from franca.protocols.gearman.clients import HIGH, LOW, NORMAL, Submission
from franca.protocols.gearman.conversation import Act
from franca.protocols.gearman.wire import TYPES, Packet

_ACTS: Final[dict[Packet, Act]] = {
    Packet.CAN_DO: workers.on_can_do,
    Packet.CANT_DO: workers.on_cant_do,
    Packet.RESET_ABILITIES: workers.on_reset_abilities,
    Packet.PRE_SLEEP: workers.on_pre_sleep,
    Packet.SUBMIT_JOB: Submission(NORMAL, background=False),
    Packet.GRAB_JOB: workers.on_grab,
    Packet.WORK_STATUS: workers.on_status,
    Packet.WORK_COMPLETE: workers.on_complete,
    Packet.WORK_FAIL: workers.on_fail,
    Packet.GET_STATUS: clients.on_get_status,
    Packet.ECHO_REQ: clients.on_echo,
    Packet.SUBMIT_JOB_BG: Submission(NORMAL, background=True),
    Packet.SUBMIT_JOB_HIGH: Submission(HIGH, background=False),
    Packet.SET_CLIENT_ID: clients.on_client_id,
    Packet.CAN_DO_TIMEOUT: workers.on_can_do_timeout,
    Packet.WORK_EXCEPTION: workers.on_exception,
    Packet.OPTION_REQ: clients.on_option,
    Packet.WORK_DATA: workers.on_data,
    Packet.WORK_WARNING: workers.on_warning,
    Packet.GRAB_JOB_UNIQ: workers.on_grab_uniq,
    Packet.SUBMIT_JOB_HIGH_BG: Submission(HIGH, background=True),
    Packet.SUBMIT_JOB_LOW: Submission(LOW, background=False),
    Packet.SUBMIT_JOB_LOW_BG: Submission(LOW, background=True),
    Packet.GRAB_JOB_ALL: workers.on_grab_all,
}

PACKETS: Final[tuple[Act | None, ...]] = tuple(
    _ACTS.get(Packet(number)) if number in set(Packet) else None for number in range(TYPES)
)
