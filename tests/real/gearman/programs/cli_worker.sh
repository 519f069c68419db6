#!/bin/sh
# Workers of the `gearman` tool: it runs one command for all of its functions, so here is one for
# each. Arguments: port, Python, then pairs of a function's name and what it does.
port=$1 python=$2
shift 2
# When the server goes, it says so as fast as it can, without end: an end is set.
exec 2>/dev/null 3>&1
while [ $# -gt 0 ]; do
    timeout --foreground 300 gearman -h 127.0.0.1 -p "$port" -w -f "$1" -- \
        "$python" -m tests.real.gearman.programs.cli_job "$1" "$2" &
    shift 2
done
echo '{"event": "ready"}'
wait
