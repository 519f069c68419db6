"""What a process needs before anything else: its first three descriptors."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import json, os, sys
from franca.node.process import open_standard_files
open_standard_files()
print("said", file=sys.stdout, flush=True)
print("said", file=sys.stderr, flush=True)
opened = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
os.write(opened, json.dumps([os.fstat(n).st_rdev for n in range(3)] + [opened]).encode())
"""


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_descriptors_that_were_closed_are_not_given_to_files(tmp_path: Path, closed: str) -> None:
    told = tmp_path / "told"
    line = f'exec "$0" -c "$1" "$2" {closed}'
    words = ["sh", "-c", line, sys.executable, PROGRAM, str(told)]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=30)
    assert (done.returncode, done.stderr.replace(b"said\n", b"")) == (0, b"")
    *standard, opened = json.loads(told.read_bytes())
    assert opened > 2
    null = os.stat(os.devnull).st_rdev
    redirected = [word[0] for word in closed.split()]
    assert all(standard["<>2".index(sign)] == null for sign in redirected)
