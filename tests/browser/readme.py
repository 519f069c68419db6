"""Renew the pictures of README: `python -m tests.browser.readme [SECONDS]`, which takes that long.

They show a real server that has had jobs of three protocols for so many seconds.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from tests.browser.shots import SCHEMES, started
from tests.browser.world import Shop, world
from tests.support.server import ROOT

PICTURES = ROOT / "docs" / "pictures"
BYTES_MAX = 150_000
SIZE = {"width": 1280, "height": 800}


def main() -> None:
    seconds = float(sys.argv[1]) if sys.argv[1:] else 240
    with tempfile.TemporaryDirectory() as name, world(Path(name)) as around:
        shop = Shop(around)
        shop.start()
        time.sleep(seconds)
        PICTURES.mkdir(exist_ok=True)
        with started(Path(name) / "log") as browser:
            for scheme in SCHEMES:
                path = PICTURES / f"overview-{scheme}.png"
                browser.open(f"{around.address}#/?range=15m", scheme=scheme, **SIZE)
                browser.until_shown("Throughput")
                browser.shot(path)
                size = path.stat().st_size
                print(f"{path.relative_to(ROOT)}: {size:,} bytes")
                assert size <= BYTES_MAX
        shop.close()


if __name__ == "__main__":
    main()
