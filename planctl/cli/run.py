"""`planctl run`: its options, its signals, and what it writes where. pydantic-ai is imported inside, and only here."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Annotated

import typer

from planctl.cli.settings import Settings

TYPE_CHECKING = False  # As `typing` has it, without importing it.
if TYPE_CHECKING:
    from pathlib import Path

    from planctl.agent.job import Stop, Wanted
    from planctl.agent.outcome import Result
    from planctl.agent.spec import LoadedAgent
    from planctl.stores.base import BaseStore

EXAMPLES = {'run': 'planctl run --plan-first --model offline - < checklist.md'}

_Agent = Annotated[
    str | None, typer.Option(metavar='FILE', help='An agent file, or module:variable. Default: the nearest agent.yaml.')
]
_Model = Annotated[
    str | None, typer.Option(metavar='NAME', help='The model, as provider:name; `offline` needs no key.')
]
_PlannerModel = Annotated[str | None, typer.Option(metavar='NAME', help='Another model for planning.')]


def run_command(
    settings: Settings,
    objective: Annotated[
        str | None, typer.Argument(metavar='[OBJECTIVE|-]', help='What is to be done; - reads it from stdin.')
    ] = None,
    *,
    plan_first: Annotated[bool, typer.Option('--plan-first', help='Plan, then carry the plan out.')] = False,
    plan_only: Annotated[bool, typer.Option('--plan-only', help='Plan, and stop there.')] = False,
    append: Annotated[bool, typer.Option('--append', help='Plan, and add to the steps that are there.')] = False,
    replan: Annotated[bool, typer.Option('--replan', help='Plan the open steps again.')] = False,
    agent: _Agent = None,
    model: _Model = None,
    planner_model: _PlannerModel = None,
    max_nudges: Annotated[
        int, typer.Option(min=0, help='How often an agent that stops early is told what is open.')
    ] = 2,
    max_idle: Annotated[int, typer.Option(min=1, help='Requests in a row without a change of the plan.')] = 50,
    max_requests: Annotated[int | None, typer.Option(min=1, help='Requests to the model, for each phase.')] = None,
    steps_per_context: Annotated[
        int | None, typer.Option(min=1, help='Start with a fresh context after so many resolved steps.')
    ] = None,
) -> int:
    """Let an agent carry out the plan, after planning it where that is asked for.

    Ends with 0 when the plan is finished and with 6 when it is not, whatever the agent says.
    """
    from pathlib import Path

    from planctl.errors import InputError

    if append and replan:
        raise InputError('--append and --replan exclude each other')
    given = _objective(objective)
    folder = Path.cwd()
    if given is None:
        _require_plan(settings, agent, folder)
    from planctl.agent.job import Wanted
    from planctl.agent.spec import load_agent

    wanted = Wanted(
        objective=given or '',
        plan_first=plan_first,
        plan_only=plan_only,
        append=append,
        replan=replan,
        max_nudges=max_nudges,
        max_idle=max_idle,
        max_requests=max_requests,
        steps_per_context=steps_per_context,
    )
    return _run(settings, wanted, load_agent(agent, model=model, folder=folder), planner_model)


def _objective(given: str | None) -> str | None:
    """Return the objective; one that is given but says nothing is a usage error."""
    from planctl.cli.stdin import read_stdin
    from planctl.errors import InputError
    from planctl.sanitize import clean_block

    if given is None:
        return None
    text = clean_block(read_stdin() if given == '-' else given)
    if not text:
        raise InputError('the objective on stdin is empty' if given == '-' else 'the objective is empty')
    return text


def _require_plan(settings: Settings, agent: str | None, folder: Path) -> None:
    """Without an objective there has to be a plan: say so before a missing agent or model is complained about."""
    from planctl.agent.nearest import nearest_agent_file
    from planctl.cli.database import read
    from planctl.errors import NotFound

    if agent is not None or nearest_agent_file(folder) is not None:
        return  # It may name the database.
    plan = read(settings)
    if not plan.steps and not plan.objective:
        raise NotFound(
            f'session {plan.session!r} has no plan, and no objective was given',
            hint='planctl run --plan-first "what is to be done"',
        )


def _run(settings: Settings, wanted: Wanted, loaded: LoadedAgent, planner_model: str | None) -> int:
    import asyncio
    import os

    from planctl.agent.job import Job, Stop
    from planctl.agent.runner import run
    from planctl.cli.live import reporter

    # pydantic-ai greets on terminals; what is there belongs to the plan.
    os.environ.setdefault('PYDANTIC_AI_NO_BANNER', '1')
    planner = loaded.model_for(planner_model, option='--planner-model') if wanted.plans else None
    executor = None if wanted.plan_only else loaded.model_for(None, option='--model')
    store, where = _store(settings, loaded, create=bool(wanted.objective))
    stop = Stop()
    with reporter(settings) as watch:
        job = Job(store, loaded, wanted, watch, f'{loaded.label} · {where}')

        async def go() -> Result:
            with _signals(stop, watch.close):
                result = await run(job, planner=planner, executor=executor, stop=stop)
            job.introduce()
            if stop.reason is not None and _is_left_behind():
                watch.close()
                os._exit(_flushed(_finish(settings, result, listed=watch.plain)))
            return result

        result = asyncio.run(go())
    return _finish(settings, result, listed=watch.plain)


def _store(settings: Settings, loaded: LoadedAgent, *, create: bool) -> tuple[BaseStore, str]:
    """Return the store and where it is: the one that is named, else the agent's own, else the nearest file."""
    from planctl.agent.roles import own_planning
    from planctl.errors import InputError
    from planctl.locate import locate
    from planctl.plan import check_session
    from planctl.stores.adapter import inner
    from planctl.stores.sqlite import SqlitePlanStore

    own = own_planning(loaded)
    if settings.db is None and own is not None and own.store is not None:
        store = own.store
        if isinstance(store, SqlitePlanStore):
            session = store.session if settings.session is None else settings.session
            return SqlitePlanStore(store.path, session=session, table=store.table), f'{store.path} · session {session}'
        if settings.session is not None:
            raise InputError(f'--session cannot be given: {loaded.label} has a store of its own')
        return inner(store), f'{type(store).__name__} of {loaded.label}'
    session = check_session(settings.session_name)
    place = locate(settings.db, create=create)
    is_new = '' if place.exists else ' (new)'
    where = f'{place.shown}{is_new} · session {session}'
    return SqlitePlanStore(place.path, session=session, table=place.table, journal=place.journal), where


@contextmanager
def _signals(stop: Stop, close: Callable[[], None]) -> Generator[None]:
    """Let SIGINT and SIGTERM end the run; the second one ends the process at once."""
    import asyncio
    import os
    import signal

    from planctl.agent.outcome import STATUS, StopReason

    loop = asyncio.get_running_loop()
    reasons = {signal.SIGINT: StopReason.interrupted, signal.SIGTERM: StopReason.terminated}

    def asked(reason: StopReason) -> None:
        if stop.reason is None:
            stop.request(reason)
        else:
            close()
            os._exit(STATUS[reason])

    added: list[int] = []
    for number, reason in reasons.items():
        with suppress(NotImplementedError):  # Windows
            loop.add_signal_handler(number, asked, reason)
            added.append(number)
    try:
        yield
    finally:
        for number in added:
            loop.remove_signal_handler(number)


def _is_left_behind() -> bool:
    """Whether a tool that knows no cancelling still runs on a thread, for which the interpreter would wait."""
    import threading

    return any(thread is not threading.main_thread() and not thread.daemon for thread in threading.enumerate())


def _flushed(status: int) -> int:
    import sys

    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    return status


def _finish(settings: Settings, result: Result, *, listed: bool) -> int:
    """Write the answer to stdout and how it ended to stderr; return the exit status."""
    from planctl.agent.outcome import STATUS
    from planctl.cli.failure import report
    from planctl.cli.output import complain, emit, emit_json
    from planctl.sanitize import shown
    from planctl.text import step_line

    if settings.json:
        emit_json(result.document())
    elif result.text and not settings.quiet:
        emit(result.text + '\n')
    if result.error is not None:
        return report(result.error)
    status = STATUS[result.stop_reason]
    if status and listed:
        for step in result.plan.steps:
            if not step.resolved:
                complain(f'  {step_line(result.plan, step)}')
    if status or not settings.quiet:
        complain(f'planctl: {result.stop_reason.value.replace("_", " ")}: {shown(result.message)}')
    return status
