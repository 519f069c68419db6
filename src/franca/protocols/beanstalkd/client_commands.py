"""What producers say: put, use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from franca.core.errors import Refused
from franca.core.model import Millis
from franca.protocols.beanstalkd.jobs import new_job
from franca.protocols.beanstalkd.messages import Put, Use
from franca.protocols.beanstalkd.wire import OUT_OF_MEMORY

if TYPE_CHECKING:
    from franca.protocols.beanstalkd.conversation import BeanstalkdConversation

DRAINING: Final = b"DRAINING\r\n"


def on_put(conversation: BeanstalkdConversation, message: Put, now: Millis) -> None:
    """put: the job is taken, and durable when its sender hears of it."""
    conversation.is_producer = True
    service = conversation.service
    if service.draining:
        conversation.link.write(DRAINING)
        return
    broker = conversation.broker
    tube = conversation.tube
    try:
        new = new_job(message, tube, str(broker.next_id()), broker.wall(now))
        job = broker.submit(new, now)
    except Refused as refusal:
        conversation.link.note(refusal.text)
        conversation.link.write(OUT_OF_MEMORY)
        return
    service.total_jobs += 1
    service.counts(tube).jobs += 1
    conversation.link.write_after_commit(b"INSERTED %d\r\n" % job.id)


def on_use(conversation: BeanstalkdConversation, message: Use, now: Millis) -> None:
    """use: where jobs are put from now on."""
    service = conversation.service
    service.refer(message.tube)
    service.let_go(conversation.tube)
    conversation.tube = message.tube
    conversation.link.write(b"USING %b\r\n" % message.tube.encode())
