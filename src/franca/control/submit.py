"""Submitting many jobs at once: each is taken in or refused by itself."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated

import msgspec
from msgspec import Meta, Raw, Struct

from franca.control import shapes
from franca.control.jobs import Push, Via, new_job_of, submit
from franca.control.port import BadRequest, NodePort, pause_after
from franca.control.states import public_state
from franca.core.errors import Refused
from franca.core.model import Millis, NewJob
from franca.engine.engine import Engine

JOBS_MAX = 1_000
"""Jobs in one request."""
AT_ONCE = 200
"""Jobs that are submitted in one turn."""


class SubmitMany(Struct, forbid_unknown_fields=True):
    """New jobs, each as `jobs.push` takes it. They came over `via`, or each over its own."""

    jobs: Annotated[list[Raw], Meta(max_length=JOBS_MAX)]
    via: Via | None = None


async def submit_many(node: NodePort, params: SubmitMany) -> shapes.SubmittedMany:
    """Take in what can be taken in; of each job its id, or why it was refused."""
    answers: list[shapes.Submitted] = []
    for start in range(0, len(params.jobs), AT_ONCE):
        some: list[tuple[Push, NewJob] | str] = []
        for raw in params.jobs[start : start + AT_ONCE]:
            try:
                push = _read(raw)
                push.via = params.via or push.via
                some.append((push, await new_job_of(push, node.engine.limits)))
            except Refused as error:
                some.append(error.text)
            await pause_after(len(memoryview(raw)))
        answers += await node.ask(partial(_submit, some))
    return shapes.SubmittedMany(answers)


def _read(raw: Raw) -> Push:
    try:
        return msgspec.json.decode(raw, type=Push)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise BadRequest(str(error)) from None


def _submit(
    some: Sequence[tuple[Push, NewJob] | str], engine: Engine, now: Millis
) -> list[shapes.Submitted]:
    answers: list[shapes.Submitted] = []
    for one in some:
        if isinstance(one, str):
            answers.append(shapes.Submitted(error=one))
            continue
        try:
            job = submit(engine.broker, *one, now)
            answers.append(shapes.Submitted(job.id, job.name, public_state(job)))
        except Refused as error:
            answers.append(shapes.Submitted(error=error.text))
    return answers
