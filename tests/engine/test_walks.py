"""The walks of `docs/ARCHITECTURE.md` are those that messages take.

A walk is a list of functions that are called one after the other. Between two of them, on the way
from one to the next through the calls, no other function of ours may decide anything: whoever reads
the walk has seen every branch on it. What a function calls and is done with before the next one
begins is its own affair.
"""

import ast
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

import pytest

from tests.protocols.beanstalkd.puppet import World as BeanstalkdWorld
from tests.protocols.eventmq.puppet import World as EventmqWorld
from tests.protocols.faktory.puppet import World as FaktoryWorld
from tests.protocols.gearman.puppet import World as GearmanWorld
from tests.protocols.memodb.puppet import World as MemoDBWorld
from tests.protocols.periodic.puppet import World as PeriodicWorld

PACKAGE = Path(__file__).parents[2] / "src" / "franca"
STEPS_MAX = 9
_ROW = re.compile(r"\|[^|`]*`([\w/]+\.py)` `([\w.]+)`")
_BRANCHES = (
    ast.If, ast.For, ast.While, ast.Try, ast.TryStar, ast.Match, ast.BoolOp, ast.IfExp,
)  # fmt: skip
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


class Function(NamedTuple):
    """A function of ours: its file below the package, and its name in it."""

    file: str
    name: str


class Call(NamedTuple):
    """A call: every function of ours that is running then, the called one last, each with a number."""

    stack: tuple[tuple[int, Function], ...]

    @property
    def called(self) -> Function:
        return self.stack[-1][1]


def walks_in(page: str) -> dict[str, list[Function]]:
    """The walks of a page by their headings: tables whose rows begin with a file and a function."""
    walks: dict[str, list[Function]] = {}
    for section in re.split(r"^### ", page, flags=re.MULTILINE)[1:]:
        steps = [Function(*row) for row in _ROW.findall(re.split(r"^#", section, flags=re.M)[0])]
        if steps:
            walks[section.splitlines()[0]] = steps
    return walks


def calls_of(act: Callable[[], object]) -> list[Call]:
    """Every call of a function of ours while something is done."""
    calls: list[Call] = []
    numbers: dict[FrameType, int] = {}

    def stack_of(frame: FrameType | None) -> Iterator[tuple[int, Function]]:
        while frame is not None:
            function = _function_of(frame.f_code)
            if function is not None and frame in numbers:
                yield numbers[frame], function
            frame = frame.f_back

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and _function_of(frame.f_code) is not None:
            numbers[frame] = len(calls)
            calls.append(Call(tuple(stack_of(frame))[::-1]))

    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
    return calls


@cache
def _function_of(code: CodeType) -> Function | None:
    """The function that a code object is; comprehensions belong to the function around them."""
    path = Path(code.co_filename)
    if not path.is_relative_to(PACKAGE) or code.co_qualname.endswith(">"):
        return None
    return Function(str(path.relative_to(PACKAGE)), code.co_qualname)


def fault_in(walk: list[Function], calls: list[Call]) -> str:
    """What is wrong with a walk; nothing if it is as it happened."""
    if len(walk) > STEPS_MAX:
        return f"{len(walk)} functions are too many"
    at = 0
    passed: set[int] = set()
    for step in walk:
        while at < len(calls) and calls[at].called != step:
            at += 1
        if at == len(calls):
            return f"{step.name} of {step.file} is not called there"
        for number, function in calls[at].stack[:-1]:
            if number not in passed and function not in walk and has_branch(function):
                return f"{function.name} of {function.file} decides something before {step.name}"
        passed = {number for number, _ in calls[at].stack}
        at += 1
    return ""


@cache
def has_branch(function: Function) -> bool:
    """Whether a function's own code, without those defined in it, decides anything."""
    tree = ast.parse((PACKAGE / function.file).read_text())
    node = dict(_functions_in(tree, ""))[function.name]
    return any(
        isinstance(one, _BRANCHES) or (isinstance(one, ast.comprehension) and bool(one.ifs))
        for one in _own_nodes(node)
    )


def _functions_in(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.AST]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef):
            yield prefix + child.name, child
            yield from _functions_in(child, f"{prefix}{child.name}.<locals>.")
        elif isinstance(child, ast.ClassDef):
            yield from _functions_in(child, f"{prefix}{child.name}.")
        else:
            yield from _functions_in(child, prefix)


def _own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, _SCOPES):
            yield child
            yield from _own_nodes(child)


# -- tests -----------------------------------------------------------------------------------------

PAGE = Path(__file__).parents[2] / "docs" / "ARCHITECTURE.md"
WALKS = walks_in(PAGE.read_text())


def eventmq_request() -> list[Call]:
    """A client asks for something, and a worker has a free slot."""
    world = EventmqWorld()
    world.worker(slots=1)
    client = world.peer()
    return calls_of(client.request)


def eventmq_ready() -> list[Call]:
    """A job waits, and a worker says that it would take one."""
    world = EventmqWorld()
    worker = world.worker()
    worker.say("HEARTBEAT", "1.0")  # what follows an INFORM waits for a turn of its own
    world.peer().request()
    return calls_of(lambda: worker.say("READY"))


PUSH = b'PUSH {"jid":"walk00000001","jobtype":"walk","queue":"walk","args":[]}\r\n'


def faktory_push() -> list[Call]:
    client = FaktoryWorld().peer()
    return calls_of(lambda: client.send(PUSH))


def faktory_fetch() -> list[Call]:
    world = FaktoryWorld()
    world.peer().send(PUSH)
    worker = world.peer("w1")
    return calls_of(lambda: worker.send(b"FETCH walk\r\n"))


def gearman_submit() -> list[Call]:
    return calls_of(GearmanWorld().connect().submit_bg)


def gearman_grab() -> list[Call]:
    world = GearmanWorld()
    worker = world.worker("f")
    world.connect().submit_bg()
    return calls_of(worker.grab)


def periodic_submit() -> list[Call]:
    return calls_of(PeriodicWorld().peer().submit)


def periodic_grab() -> list[Call]:
    world = PeriodicWorld()
    worker = world.worker("f")
    world.peer().submit()
    return calls_of(worker.grab)


def memodb_result() -> list[Call]:
    world = MemoDBWorld()
    client, worker = world.peer(), world.worker("s")
    client.job()
    task = worker.given()
    return calls_of(lambda: worker.result(task))


def beanstalkd_put() -> list[Call]:
    return calls_of(BeanstalkdWorld().peer().put)


def beanstalkd_reserve() -> list[Call]:
    peer = BeanstalkdWorld().peer()
    peer.put()
    return calls_of(lambda: peer.ask("reserve"))


SCENES: Mapping[str, Callable[[], list[Call]]] = {
    "Faktory: a PUSH is answered": faktory_push,
    "Faktory: a FETCH is answered with a job": faktory_fetch,
    "Gearman: a SUBMIT_JOB_BG is answered": gearman_submit,
    "Gearman: a GRAB_JOB is answered with a job": gearman_grab,
    "Periodic: a SUBMIT_JOB is answered": periodic_submit,
    "Periodic: a GRAB_JOB is answered with a job": periodic_grab,
    "MemoDB: a RESULT answers the JOB of a client": memodb_result,
    "EventMQ: a REQUEST is answered": eventmq_request,
    "EventMQ: its job is given to a worker that waits": eventmq_request,
    "EventMQ: a READY is answered with a job": eventmq_ready,
    "beanstalkd: a put is answered": beanstalkd_put,
    "beanstalkd: a reserve is answered with a job": beanstalkd_reserve,
}


def test_every_walk_has_its_scene() -> None:
    assert set(WALKS) == set(SCENES)


@pytest.mark.parametrize("name", SCENES)
def test_a_message_takes_the_walk_that_the_page_shows(name: str) -> None:
    walk = WALKS[name]
    assert walk[0] == Function("engine/engine.py", "Engine.turn")
    assert walk[-1].name.startswith("Link.write")
    assert fault_in(walk, SCENES[name]()) == ""


@pytest.mark.parametrize("name", SCENES)
def test_a_walk_that_leaves_something_out_is_wrong(name: str) -> None:
    calls = SCENES[name]()
    walk = WALKS[name]
    left_out = [step for step in walk[1:-1] if has_branch(step)]
    on_the_way = {
        function for call in calls if call.called == walk[-1] for _, function in call.stack
    }
    wrong = [step for step in left_out if step in on_the_way]
    assert len(wrong) >= 3
    for step in wrong:
        assert fault_in([one for one in walk if one != step], calls)


def test_a_walk_in_another_order_or_with_strangers_is_wrong() -> None:
    calls = eventmq_request()
    walk = WALKS["EventMQ: a REQUEST is answered"]
    assert fault_in(walk[::-1], calls)
    assert fault_in([*walk[:-1], Function("core/broker.py", "Broker.tick_twice"), walk[-1]], calls)
    assert fault_in([walk[0]] * 10, calls) == "10 functions are too many"


@pytest.mark.parametrize(
    ("file", "name", "branches"),
    [
        ("engine/engine.py", "Engine._take_inputs", True),
        ("protocols/conversation.py", "Link.write", True),
        ("protocols/conversation.py", "Link.call_next_turn", False),
        ("protocols/conversation.py", "Conversation.unread", False),
        ("protocols/eventmq/service.py", "EventmqService.extra_listeners", False),
    ],
)
def test_what_decides_something(file: str, name: str, branches: bool) -> None:
    assert has_branch(Function(file, name)) is branches
