"""How the real peers meet the server: heartbeats, names, and files instead of ports."""

import json
import threading
import time

from tests.real.emq import JOBS, Broker, Client, EmqPeers, not_the_original
from tests.real.relay import SERVER, Relay, Side, Tape
from tests.support.server import HOST
from tests.support.shared import eventually

HELD_S = 4.0
"""Longer than the time between two heartbeats."""


def test_without_a_heartbeat_no_process_is_started_and_nothing_is_run(
    emq: EmqPeers, broker: Broker, client: Client
) -> None:
    with Holding(int(broker.addresses["workers"].rpartition(":")[2])) as between:
        manager = emq.job_manager(f"tcp://{HOST}:{between.port}")
        eventually(lambda: client.workers() or None, "the job manager")
        client.defer("echo", "at last")
        time.sleep(HELD_S)
        (worker,) = client.workers().values()
        assert worker["available_slots"] == 0
        client.until_waiting(default=1)
        assert manager.has_said() == []

        between.release.set()
        assert manager.ran(1) == [["at last"]]
        client.until_slots(1)


@not_the_original
def test_a_peer_without_a_name_of_its_own_is_served(
    emq: EmqPeers, broker: Broker, client: Client
) -> None:
    """The original dies of the five bytes that libzmq gives to such a peer."""
    manager = emq.job_manager(broker)
    client.until_slots(1)
    call = {"callable": "echo", "path": JOBS, "args": ["nameless"]}
    frames = ["", "eMQP/1.0", "REQUEST", "nameless-1", "default", "", json.dumps(["run", call])]
    client.do("nameless", frames=frames)
    answer = client.do("nameless_answer")
    assert (answer[0], answer[2:]) == ("REPLY", ["nameless-1"])
    assert manager.ran(1) == [["nameless"]]


@not_the_original
def test_peers_may_meet_the_server_in_a_file_instead_of_a_port(emq: EmqPeers) -> None:
    address = f"ipc://{emq.folder}/eventmq"
    broker = emq.broker("--eventmq", address)
    broker.addresses |= dict.fromkeys(("requests", "workers", "admin"), address)
    manager = emq.job_manager(broker)
    client = emq.client(broker)
    client.until_slots(1)
    client.defer("echo", "through a file")
    assert manager.ran(1) == [["through a file"]]


class Holding(Relay):
    """Holds back what the server says from its first heartbeat on, until `release` is set."""

    read_size = 1
    cuts_at_close = True

    def __init__(self, server_port: int) -> None:
        self.release = threading.Event()
        super().__init__(server_port)

    def passes(self, tape: Tape, side: Side) -> bool:
        # Without its last byte a message has not come.
        if side == SERVER and tape.said(SERVER).endswith(b"HEARTBEAT"):
            self.release.wait()
        return True

    def close(self) -> None:
        self.release.set()
        super().close()
