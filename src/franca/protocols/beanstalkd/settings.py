"""What an operator may choose about beanstalkd."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from franca.protocols.declaration import Declaration, Setting
from franca.values import whole_number

_SIZE_MAX: Final = 1 << 30


class BeanstalkdSettings(Struct, frozen=True):
    """What an operator may choose, and what `stats` shows of the machine."""

    max_job_size: int = 65_535
    """Bytes of the largest body that is taken."""
    host: str = "localhost"
    pid: int = 0
    os: str = ""
    platform: str = ""


DECLARATION: Final = Declaration(
    name="beanstalkd",
    listeners={"beanstalkd": ("127.0.0.1:11300",)},
    settings=(
        Setting(
            "max_job_size",
            whole_number(1, _SIZE_MAX),
            65_535,
            flag="--beanstalkd-max-job-size",
            help="The largest body of a job that beanstalkd's `put` takes, in bytes.",
        ),
    ),
)
