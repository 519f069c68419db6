"""`python -m bench [WORD] [OPTION]...`: how fast the server is, one word for each benchmark.

Without a word it is Faktory's: what the server reaches beside what its event loop could reach.
"""

import signal
import sys
from importlib import import_module

from bench.build import CannotBuild
from bench.client import Unexpected
from bench.servers import ServerFailed

WORDS = {
    "faktory": "Faktory, against a bare echo server on the same event loop",
    "gearman": "Gearman, against gearmand with its SQLite queue and without any",
    "memodb": "MemoDB, against a minimal broker on NNG's own contexts",
    "eventmq": "EventMQ, against the original router",
    "beanstalkd": "beanstalkd, against the original with its log on disk",
    "backlog": "a million jobs across a kill -9",
    "idle": "thousands of idle connections",
    "million": "that no operation stops the others, with a million jobs stored",
    "bounds": "that memory and files are bounded, whatever peers do",
    "against": "COMMIT [--web]: what a job costs, beside COMMIT; with an idle web side, too",
}


def main() -> int:
    """Run the benchmark that is asked for; its exit code, or 2 when it cannot be run here."""
    # As on an interrupt, what was started is ended and what was written removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    arguments = sys.argv[1:]
    has_word = bool(arguments) and not arguments[0].startswith("-")
    word = arguments.pop(0) if has_word else "faktory"
    if word not in WORDS:
        print(f"bench: no benchmark {word}\n{words()}", file=sys.stderr)
        return 2
    try:
        code: int = import_module(f"bench.{word}").main(arguments)
    except (CannotBuild, ServerFailed, Unexpected, OSError) as error:
        print(f"bench {word}: {error}", file=sys.stderr)
        return 2
    if not has_word:
        print(f"\nmake bench ARGS=WORD measures more:\n{words()}")
    return code


def words() -> str:
    """A line for each benchmark."""
    return "\n".join(f"  {word:<10} {what}" for word, what in WORDS.items())


if __name__ == "__main__":
    sys.exit(main())
