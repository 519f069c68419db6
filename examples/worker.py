"""A worker of the real Faktory library: runs `hello` jobs of the queue `default`.

python examples/worker.py [tcp://:password@host:port]
"""

import sys

from pyfaktory import Client, Consumer


def hello(*names: object) -> None:
    """Greet whoever the job names."""
    print("hello,", *names, flush=True)


def main() -> None:
    """Work until interrupted."""
    url = sys.argv[1] if len(sys.argv) > 1 else "tcp://127.0.0.1:7419"
    with Client(faktory_url=url, role="consumer") as client:
        consumer = Consumer(client=client, queues=["default"], concurrency=1)
        consumer.register("hello", hello)
        consumer.run()


if __name__ == "__main__":
    main()
