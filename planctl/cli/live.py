"""What a person sees of a run, on stderr: the plan as it changes on a terminal, one plain line an event in a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol, cast

from planctl.agent.limits import dollars
from planctl.agent.watch import (
    Decided,
    PhaseStarted,
    PlanChanged,
    PlanSeen,
    Requested,
    Retried,
    RunEvent,
    Said,
    StartedAnew,
    ToolCalled,
    ToolReturned,
)
from planctl.change import Change, StepChange, difference
from planctl.cli.output import carried, complain, is_terminal
from planctl.cli.settings import Settings
from planctl.plan import Plan, Step
from planctl.sanitize import clean, shown
from planctl.text import counted, elapsed, step_line, tree_order

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

_PHASES = {'plan': 'planning', 'execute': 'carrying out'}
_ARGUMENTS = 100
_TOOLS = 4
"""How many tools that run at the same time are named."""


class Reporter(Protocol):
    """Somebody who watches a run."""

    plain: bool
    """Whether the plan is not shown, so that open steps have to be listed at the end."""

    def __call__(self, event: RunEvent) -> None:
        """Take one event."""

    def aside(self) -> AbstractContextManager[None]:
        """Leave the terminal to somebody else for the length of the block."""
        ...

    def close(self) -> None:
        """Leave the terminal as it was."""


@contextmanager
def reporter(settings: Settings) -> Generator[Reporter]:
    """Yield who watches a run with these settings, and close it at the end."""
    watching: Reporter
    if settings.quiet:
        watching = _Silent()
    elif sys.stderr is not None and is_terminal(sys.stderr, redrawn=True):  # pyright: ignore[reportUnnecessaryComparison]
        watching = _Live()
    else:
        watching = _Plain()
    try:
        yield watching
    finally:
        watching.close()


class _Silent:
    plain = True

    def __call__(self, event: RunEvent) -> None:
        pass

    def aside(self) -> AbstractContextManager[None]:
        return nullcontext()

    def close(self) -> None:
        pass


class _Plain:
    """One line for each event that a log is read for; requests are not among them."""

    plain = True

    def __init__(self) -> None:
        self._plan = Plan()

    def __call__(self, event: RunEvent) -> None:
        for line in self._lines(event):
            complain(line)

    def _lines(self, event: RunEvent) -> Iterator[str]:
        match event:
            case PhaseStarted(name, model, plan):
                self._plan = plan
                yield f'planctl: {_PHASES[name]} with {shown(model)}'
            case PlanChanged(change):
                self._plan = change.after
                yield from change_lines(change)
            case PlanSeen(plan):
                change = Change(self._plan, plan, difference(self._plan.steps, plan.steps))
                self._plan = plan
                yield from (f'{line} (by somebody else)' for line in change_lines(change))
            case ToolCalled(is_plan=False):
                yield f'    {tool_line(event)}'
            case _:
                if text := sentence(event):
                    yield f'planctl: {text}'

    def aside(self) -> AbstractContextManager[None]:
        return nullcontext()

    def close(self) -> None:
        pass


class _Live:
    """The plan, redrawn while it changes, with a line below it that says what is going on."""

    plain = False

    def __init__(self) -> None:
        from rich.console import Console

        self._plan = Plan()
        self._phase = ''
        self._tools: dict[str, str] = {}
        self._use: dict[str, Requested] = {}
        self._name = ''
        self._started = time.monotonic()
        self._is_aside = False
        self._console = Console(stderr=True, highlight=False, markup=False, emoji=False)
        self._live: Live | None = None

    def __call__(self, event: RunEvent) -> None:
        match event:
            case PhaseStarted(name, model, plan):
                self._plan, self._name, self._phase = plan, name, f'{_PHASES[name]} with {shown(model)}'
            case PlanChanged(change):
                self._plan = change.after
            case PlanSeen(plan):
                self._plan = plan
            case ToolCalled(id=call, is_plan=False):
                self._tools[call] = tool_line(event)
            case ToolReturned(id=call):
                self._tools.pop(call, None)
            case Requested():
                self._use[self._name] = event
            case _:
                if text := sentence(event):
                    with suppress(OSError):
                        line = carried(f'planctl: {text}', self._console.encoding)
                        self._console.print(line, style='dim', soft_wrap=True)
        if self._phase and not self._is_aside:
            with suppress(OSError):  # A terminal that was closed is no end of the run; the signal is.
                self._draw()

    @contextmanager
    def aside(self) -> Generator[None]:
        self._stop(leaving=False)
        self._is_aside = True
        try:
            yield
        finally:
            self._is_aside = False

    def close(self) -> None:
        # What stays on the screen is the plan as it is, not a piece of it, and nothing that is going on.
        self._phase = ''
        self._stop(leaving=True)

    def _draw(self) -> None:
        from planctl.cli.redraw import Redrawn

        if self._live is None:
            # A new one each time: an old one would begin by wiping out what was written since.
            self._live = Redrawn(console=self._console, get_renderable=self._frame, refresh_per_second=4)
            self._live.start()
        self._live.refresh()

    def _stop(self, *, leaving: bool) -> None:
        live, self._live = self._live, None
        if live is not None:
            live.transient = not leaving
            with suppress(OSError):
                live.refresh()
                live.stop()

    def _frame(self) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        from planctl.cli.view import PlanView

        # Who works on them is known here: this run.
        rows = [(depth, _unowned(step)) for depth, step in tree_order(self._plan.steps)]
        width, height = self._console.size
        below: list[Text] = []
        if self._name:
            # Taken at once, since it is drawn on another thread.
            tools = list(self._tools.values()) if self._phase else []
            encoding = self._console.encoding
            cut = 'ellipsis' if encoding.startswith('utf') else 'crop'
            below.extend(Text(carried(self._status(), encoding), 'dim').wrap(self._console, width))
            below.extend(
                Text(carried(f'  {tool}', encoding), 'dim', no_wrap=True, overflow=cut) for tool in tools[:_TOOLS]
            )
            if len(tools) > _TOOLS:
                below.append(Text(f'  and {len(tools) - _TOOLS} more', 'dim'))
        # What stays at the end is the whole plan; until then it has what the terminal has beside that, and a cursor.
        room = height - 1 - len(below) if self._phase else None
        return Group(PlanView(self._plan, time.time(), rows, room), *below)

    def _status(self) -> str:
        """Return what goes on, and what all phases together used."""
        parts = [self._phase, elapsed(time.monotonic() - self._started)]
        if used := list(self._use.values()):
            parts.append(counted(sum(use.number for use in used), 'request'))
            if tokens := sum(use.input_tokens + use.output_tokens for use in used):
                parts.append(f'{tokens:,} tokens')
            if costs := [use.cost for use in used if use.cost is not None]:
                parts.append(dollars(sum(costs, Decimal(0))))
        return ' · '.join(part for part in parts if part)


def _unowned(step: Step) -> Step:
    return replace(step, owner=None) if step.owner and step.owner.startswith('executor:') else step


def sentence(event: RunEvent) -> str:
    """Return what an event says to a person that is neither the plan nor a call; nothing for most."""
    match event:
        case Said(text):
            return shown(text)
        case Retried(attempt, of, seconds, why):
            return f'{shown(why)}; asking again in {seconds:.0f} s ({attempt} of {of})'
        case StartedAnew(why=why):
            return f'starting anew from objective, brief and plan: {why}'
        case Decided(name, _, allowed, asked):
            if allowed:
                return f'{shown(name)} is allowed'
            return f'{shown(name)} is denied' + ('' if asked else ': it needs approval, and nobody can be asked')
        case _:
            return ''


def change_lines(change: Change) -> Iterator[str]:
    """Yield one line for each step that changed for a reader: what it is now, or that it is gone."""
    for entry in change.steps:
        line = step_line(change.after if entry.after is not None else change.before, entry.step)
        if entry.before is None:
            yield f'added {line}'
        elif entry.after is None:
            yield f'removed {line}'
        elif _is_visible(entry):
            yield line


def _is_visible(entry: StepChange) -> bool:
    before, after = entry.before, entry.after
    assert before is not None
    assert after is not None
    return (before.status, before.content, before.note) != (after.status, after.content, after.note)


def tool_line(event: ToolCalled) -> str:
    """Return a tool call on one line; the command alone where it has one."""
    import json

    try:
        arguments: Any = json.loads(event.arguments)
    except ValueError:
        arguments = None
    command: Any = cast('dict[str, Any]', arguments).get('command') if isinstance(arguments, dict) else None
    text = clean(command if isinstance(command, str) else event.arguments)
    return f'{shown(event.name)} {shown(text if len(text) <= _ARGUMENTS else f"{text[: _ARGUMENTS - 1]}…")}'
