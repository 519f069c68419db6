"""The server as a whole: whatever happens to it, it ends with a word instead of hanging."""

import shutil
import subprocess

import pytest

from tests.support.faktory import Faktory
from tests.support.server import Server

PATIENCE_S = 5.0


def push(server: Server, jid: str) -> str:
    """What a PUSH is answered: the reply's text, or why there is none."""
    try:
        with Faktory(server.port, timeout=PATIENCE_S) as client:
            client.hello()
            client.say(f'PUSH {{"jid":"{jid}","jobtype":"t","args":[]}}')
            return client.read().text
    except TimeoutError:
        return "nothing"
    except OSError:
        return "hung up"


@pytest.mark.case(2)
def test_a_server_whose_data_is_removed_stops_and_says_why(server: Server) -> None:
    assert push(server, "first-job") == "OK"
    shutil.rmtree(server.data)
    answers = [push(server, f"job-number-{number}") for number in (2, 3)]
    assert "nothing" not in answers, f"PUSH into removed data: {answers}"
    assert "OK" not in answers, f"PUSH into removed data was acknowledged: {answers}"
    try:
        code = server.process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        code = None
    assert code == 74, f"exit code {code} after its data was removed"
    assert any("store-failed" in line for line in server.log_lines())
