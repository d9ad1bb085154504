"""A run from the command line: what it is told by and to whom, how signals end it, and what it answers."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, suppress

from planctl.agent.job import Job, Stop, Wanted
from planctl.agent.lease import Holder
from planctl.agent.outcome import STATUS, Result
from planctl.agent.runner import help_out, run
from planctl.agent.tracing import start_tracing
from planctl.agent.watch import RunEvent, ToolReturned
from planctl.cli import live_long
from planctl.cli.advice import advise, aimed
from planctl.cli.asides import asides
from planctl.cli.asking import Asking
from planctl.cli.casting import Cast, store_of
from planctl.cli.database import actor_of
from planctl.cli.events import event_log
from planctl.cli.failure import report
from planctl.cli.live import reporter
from planctl.cli.output import complain, emit, emit_json
from planctl.cli.settings import Settings
from planctl.cli.stopping import is_left_behind, signals_end
from planctl.cli.terminal import is_conversation
from planctl.sanitize import shown, shown_block
from planctl.stores.base import BaseStore
from planctl.text import step_line


def run_and_answer(settings: Settings, wanted: Wanted, cast: Cast, events: str | None) -> int:
    """Run, and return the exit status. The final document is written once the run has begun, however it ends."""
    # pydantic-ai greets on terminals; what is there belongs to the plan.
    os.environ.setdefault('PYDANTIC_AI_NO_BANNER', '1')
    opening, session, where = store_of(settings, cast, create=bool(wanted.objective))
    if cast.rehearsal is not None:
        cast.rehearsal.begin()
    stop, holder = Stop(), Holder.here()
    actor = actor_of(settings)
    came: list[Result] = []
    cut_off: list[ToolReturned] = []
    known = threading.enumerate()
    with ExitStack() as open_now:
        hear = open_now.enter_context(asides(settings))
        open_now.callback(start_tracing(lambda text: complain(f'planctl: {text}')))
        # Its error is that of the answer: it comes last, when all is said.
        log = None if events is None else open_now.enter_context(event_log(events, holder.run, session))
        watch = open_now.enter_context(reporter(settings))

        def tell(event: RunEvent) -> None:
            cut_off.extend(_cut_off(event))
            if log is not None:
                log(event)
            watch(event)

        def finish() -> int:
            watch.close()
            return _finish(settings, came[0], listed=watch.plain, answered=events != '-')

        async def go() -> None:
            person: Asking | None = None
            with signals_end(stop, watch.close, deaf=lambda: person is not None and person.is_editing):
                async with AsyncExitStack() as held:
                    # What does not come up is not waited for after Ctrl-C.
                    stop.bind()
                    try:
                        store = await _ready(held, opening, [each.running(hear) for each in cast.servers])
                    finally:
                        stop.unbind()
                    person = Asking(watch, store, actor) if is_conversation() else None
                    job = Job(store, cast.executor, wanted, tell, cast.planner, person, where, holder)
                    if wanted.helps:
                        assert cast.executor_model is not None
                        result = await help_out(job, cast.executor_model, stop)
                    else:
                        result = await run(job, planner=cast.planner_model, executor=cast.executor_model, stop=stop)
                    job.introduce()
            if cast.rehearsal is not None:
                result = cast.rehearsal.ended(result)
            result.message = aimed(result.message, settings)
            if result.error is not None:
                advise(result.error, 'run', settings)
            if log is not None:
                log.finish(result)
            came.append(result)
            if (cut_off or stop.reason is not None) and is_left_behind(known):
                status = finish()
                with suppress(Exception):  # What was to be said of it is said.
                    open_now.close()
                os._exit(_flushed(status))

        live_long()
        try:
            asyncio.run(go())
        except asyncio.CancelledError:
            # Before a run has begun there is nothing to answer.
            if stop.reason is None:
                raise
            return STATUS[stop.reason]
        except SystemExit:
            # asyncio passes it on also where whoever awaited it has dealt with it.
            if not came:
                raise
        return finish()


async def _ready(
    held: AsyncExitStack,
    opening: AbstractAsyncContextManager[BaseStore],
    servers: Sequence[AbstractAsyncContextManager[None]],
) -> BaseStore:
    store = await held.enter_async_context(opening)
    for server in servers:
        await held.enter_async_context(server)
    return store


def _cut_off(event: RunEvent) -> list[ToolReturned]:
    """Return the event when it says that a tool was cut off, which may go on where it knows no cancelling."""
    return [event] if isinstance(event, ToolReturned) and event.outcome == 'interrupted' else []


def _flushed(status: int) -> int:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    return status


def _finish(settings: Settings, result: Result, *, listed: bool, answered: bool) -> int:
    """Write the answer to stdout and how it ended to stderr; return the exit status."""
    if settings.json:
        emit_json(result.document())
    elif result.text and answered and not settings.quiet:
        emit(shown_block(result.text) + '\n')
    if result.error is not None:
        return report(result.error)
    status = STATUS[result.stop_reason]
    if status and listed:
        for step in result.plan.steps:
            if not step.resolved:
                complain(f'  {step_line(result.plan, step)}')
    if status or not settings.quiet:
        reason, message = result.stop_reason.value.replace('_', ' '), shown(result.message)
        complain(f'planctl: {message}' if reason in message else f'planctl: {reason}: {message}')
    return status
