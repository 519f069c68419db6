"""Every upper bound of the server, each with its reason. All may be changed by a setting."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

TIME_MAX: Final = 1 << 53
"""No moment is later than this: so much is a whole number everywhere, in JSON too."""


class Limits(Struct, frozen=True):
    """Bounds that keep memory and time finite whatever peers do."""

    body_bytes_max: int = 64 * 1024 * 1024
    """A job's body and its result."""
    frame_bytes_max: int = 65 * 1024 * 1024
    """One message of a peer, refused before it is gathered; the largest body fits into one."""
    name_bytes_max: int = 1024
    """A queue, a job type, a job's name, a worker's name."""
    nesting_max: int = 128
    """JSON inside JSON; deeper input exists only to exhaust a parser's stack."""
    window_jobs: int = 50_000
    """Ready jobs of one queue kept in memory; the rest waits in the store."""
    held_jobs: int = 200_000
    """Jobs of all queues in memory; beyond it each queue keeps no more than it soon needs."""
    window_bytes: int = 24 * 1024 * 1024
    """Bodies of ready jobs of all queues in memory; the rest waits in the store."""
    waiting_bytes: int = 8 * 1024 * 1024
    """Bodies in memory of jobs that wait for their time."""
    large_body_bytes: int = 2_048
    """A larger body need not stay in memory while its job runs or waits for its time: the store
    keeps it apart from the job's state."""
    large_bytes: int = 8 * 1024 * 1024
    """Large bodies in memory of jobs that run or wait for their time."""
    supply_jobs: int = 1_000
    """Jobs taken from the store at once: more would hold up everybody's turn."""
    supply_bytes: int = 16 * 1024 * 1024
    """And the bytes of their bodies, for all queues together (one body may pass)."""
    due_jobs: int = 1_000
    """Waiting jobs made ready in one turn, so that a herd does not stop the world."""
    recent_names: int = 10_000
    """Names of jobs in the backlog that are still recognised when pushed again."""
    keyed_bytes: int = 192 * 1024 * 1024
    """Keys of live jobs, those in the store too, counted with what else is remembered of each.
    More jobs with keys are refused."""
    fleeting_bytes: int = 40 * 1024 * 1024
    """Jobs that only memory has, because somebody waits for them; more are refused (one passes)."""
    leased_jobs: int = 200_000
    """Jobs that run at once; whoever asks for one more waits until one of them has ended."""
    leased_bytes: int = 20 * 1024 * 1024
    """And what they take in memory beside large bodies. Jobs that wait behind a run that they
    replace count too, each with 1 KB more, and are refused beyond it, or beyond half of it."""
    lease_ms: int = 30 * 60 * 1000
    """A lease that nothing else would ever end: no time was said, and its holder has no link."""
    losses_max: int = 10
    """Unclean ends before a job is dead, where its protocol does not say how many there may be."""
    begins_awaited: int = 100_000
    """Jobs whose beginning their submitters want to hear of; those of later ones go undelivered."""
    story_attempts: int = 25
    """Attempts that a job's story keeps; the oldest go first."""
    story_bytes: int = 32 * 1024
    """And what they take together, but for the last one."""
    queues_bytes: int = 128 * 1024 * 1024
    """Queues with jobs, workers, settings, or somebody who waits, each counted with about 2.4 KB.
    Names of further ones are refused."""
    watches_max: int = 500_000
    """Clients that wait for jobs, each counted once for each job; further ones are refused."""
    locks_max: int = 100_000
    """Locks that running jobs hold; further ones are refused. And jobs that wait for one of them in
    line; further ones try again after a minute."""
    idle_queues: int = 10_000
    """Queues without jobs, workers or settings that are still listed; the oldest go first."""
    idle_queue_ms: int = 3_600_000
    """And how long they stay listed."""
    dead_jobs: int = 100_000
    """Jobs in the dead set; the oldest go first."""
    dead_ms: int = 180 * 24 * 3600 * 1000
    """And how long they stay there."""
    ended_jobs: int = 1_000_000
    """Finished and cancelled jobs that are remembered; a store in memory has 10,000 at most."""
    ended_bytes: int = 1024 * 1024 * 1024
    """And what they take in the store."""
    ended_ms: int = 7 * 24 * 3600 * 1000
    """And how long they are remembered, behind the last one that has ended."""
    idempotency_keys: int = 10_000_000
    """Idempotency keys that are remembered for a day; beyond it the oldest go first. A store in
    memory has 100,000 at most."""
    error_text_chars: int = 1_000
    """A failure's message."""
    trace_lines: int = 50
    """A failure's backtrace."""
    turn_messages: int = 64
    """Messages of one link in one turn: a flood takes its share and no more."""
    link_input_bytes: int = 256 * 1024
    """Bytes a link may have unread before the server stops reading from it."""
    input_bytes: int = 40 * 1024 * 1024
    """Bytes of all links that have come and wait to be acted on, and the largest message.

    From three quarters of it on, those with more than their share of the last quarter wait, but for
    the one with the largest message, and more while that one is slow. Who is read from then and
    sends less than `frame_bytes_per_s` for 2 s is cut off as long as others wait.
    """
    output_soft_bytes: int = 1024 * 1024
    """Unsent bytes beyond which the server stops reading from that peer."""
    output_hard_bytes: int = 16 * 1024 * 1024
    """Unsent bytes beyond which a peer that does not read is cut off (one message may pass)."""
    output_bytes: int = 56 * 1024 * 1024
    """Unsent bytes of all links, each piece counted once however many wait for it; one message
    of any size may pass.

    Beyond it large messages are read one at a time, beyond twice as much not at all. While somebody
    waits for that, whoever has taken nothing for 10 s is cut off; beyond three times as much,
    whoever has for a quarter of a second. Those who have taken nothing for longest go first.
    """
    pending_jobs: int = 2_000
    """Changed jobs that wait for the disk before those who go on changing jobs must wait too."""
    pending_bytes: int = 24 * 1024 * 1024
    """Bytes of new jobs, results and failures that wait for the disk before those who add to them
    must wait too."""
    kept_result_bytes: int = 16 * 1024 * 1024
    """Results that wait for clients who are gone or do not read (one passes); oldest go first."""
    kept_result_ms: int = 5 * 60 * 1000
    """And how long each of them waits."""
    offered_bytes: int = 4 * 1024 * 1024
    """Names of queues that the workers of one protocol offer, counted for each worker."""
    subscribed_bytes: int = 4 * 1024 * 1024
    """Topics that all subscribers ask for together."""
    rules_max: int = 10_000
    """Schedules that peers have made."""
    rules_bytes: int = 4 * 1024 * 1024
    """And the bytes of what they run."""
    connections_max: int = 10_000
    """Connections of all listeners together. For one more, the oldest that has not said who it is
    must go; if all have, the new one is refused."""
    tls_connections_max: int = 2_500
    """Those of them over TLS, which take up to 130 KB each; beyond it the same holds."""
    unknown_max: int = 256
    """Connections that have not said who they are; the oldest is dropped for a new one."""
    stranger_ms: int = 1_000
    """But not before it had this long: a thousand workers that come back at once are no attack."""
    disk_reserve_bytes: int = 64 * 1024 * 1024
    """Free room on the disk below which no new jobs are taken."""
    ballast_bytes: int = 8 * 1024 * 1024
    """Room held on the disk to be given up when it is full, so that running jobs can end."""
    handshake_ms: int = 5_000
    """Time to say who one is."""
    frame_ms: int = 30_000
    """Time to finish a message that was begun. Time in which the server does not read is not
    counted."""
    frame_bytes_per_s: int = 16_000
    """Or what must come of it, on average over each such time."""
