"""What a person sees of a run, on stderr: the plan as it changes on a terminal, one plain line an event in a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, cast

from planctl.agent.watch import PhaseStarted, PlanChanged, PlanSeen, Requested, RunEvent, Said, ToolCalled
from planctl.change import Change, StepChange, difference
from planctl.cli.output import complain
from planctl.cli.settings import Settings
from planctl.plan import Plan, Step
from planctl.sanitize import clean, shown
from planctl.text import elapsed, step_line, tree_order

if TYPE_CHECKING:
    from rich.console import RenderableType

_PHASES = {'plan': 'planning', 'execute': 'carrying out'}
_ARGUMENTS = 100
_AROUND = 7
"""Lines of a terminal that are not steps: objective, bar, blank, cut, status, and room for the cursor."""


class Reporter(Protocol):
    """Somebody who watches a run."""

    plain: bool
    """Whether the plan is not shown, so that open steps have to be listed at the end."""

    def __call__(self, event: RunEvent) -> None:
        """Take one event."""

    def close(self) -> None:
        """Leave the terminal as it was."""


@contextmanager
def reporter(settings: Settings) -> Generator[Reporter]:
    """Yield who watches a run with these settings, and close it at the end."""
    watching: Reporter
    if settings.quiet:
        watching = _Silent()
    elif _is_terminal():
        watching = _Live()
    else:
        watching = _Plain()
    try:
        yield watching
    finally:
        watching.close()


def _is_terminal() -> bool:
    import os

    stream = sys.stderr
    try:
        return stream is not None and stream.isatty() and os.environ.get('TERM') != 'dumb'  # pyright: ignore[reportUnnecessaryComparison]
    except ValueError:
        return False


class _Silent:
    plain = True

    def __call__(self, event: RunEvent) -> None:
        pass

    def close(self) -> None:
        pass


class _Plain:
    """One line for each event that a log is read for; requests are not among them."""

    plain = True

    def __init__(self) -> None:
        self._plan = Plan()

    def __call__(self, event: RunEvent) -> None:
        match event:
            case Said(text):
                complain(f'planctl: {shown(text)}')
            case PhaseStarted(name, model, plan):
                self._plan = plan
                complain(f'planctl: {_PHASES[name]} with {shown(model)}')
            case PlanChanged(change):
                self._plan = change.after
                for line in change_lines(change):
                    complain(line)
            case PlanSeen(plan):
                change = Change(self._plan, plan, difference(self._plan.steps, plan.steps))
                self._plan = plan
                for line in change_lines(change):
                    complain(f'{line} (by somebody else)')
            case ToolCalled():
                complain(f'    {tool_line(event)}')
            case Requested():
                pass

    def close(self) -> None:
        pass


class _Live:
    """The plan, redrawn while it changes, with a line below it that says what is going on."""

    plain = False

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._plan = Plan()
        self._phase = ''
        self._doing = ''
        self._requests = self._tokens = 0
        self._started = time.monotonic()
        self._console = Console(stderr=True, highlight=False, markup=False, emoji=False)
        self._live = Live(console=self._console, get_renderable=self._frame, refresh_per_second=4)

    def __call__(self, event: RunEvent) -> None:
        match event:
            case Said(text):
                self._console.print(f'planctl: {shown(text)}', style='dim', soft_wrap=True)
            case PhaseStarted(name, model, plan):
                self._plan, self._phase, self._doing = plan, f'{_PHASES[name]} with {shown(model)}', ''
                self._requests = self._tokens = 0
                self._live.start()
            case PlanChanged(change):
                self._plan = change.after
            case PlanSeen(plan):
                self._plan = plan
            case ToolCalled():
                self._doing = tool_line(event)
            case Requested(number, input_tokens, output_tokens):
                self._requests, self._tokens, self._doing = number, input_tokens + output_tokens, ''
        if self._live.is_started:
            self._live.refresh()

    def close(self) -> None:
        if self._live.is_started:
            self._phase = ''
            self._live.refresh()
            self._live.stop()

    def _frame(self) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        from planctl.cli.view import PlanView

        rows = tree_order(self._plan.steps)
        cut = ''
        if self._phase:
            first, last = _window(rows, self._console.size.width, max(3, self._console.size.height - _AROUND))
            if last - first < len(rows):
                cut = f'steps {first + 1} to {last} of {len(rows)}'
            rows = rows[first:last]
        # The first line says what it is about; the rest would leave no room for the steps.
        plan = replace(self._plan, objective=self._plan.objective.partition('\n')[0])
        view: list[RenderableType] = [PlanView(plan, time.time(), rows)]
        if cut:
            view.append(Text(cut, 'dim'))
        if self._phase:
            view.append(Text(self._status(), 'dim', no_wrap=True, overflow='ellipsis'))
        return Group(*view)

    def _status(self) -> str:
        parts = [self._phase, elapsed(time.monotonic() - self._started)]
        if self._requests:
            parts.append(f'{self._requests} requests')
        if self._tokens:
            parts.append(f'{self._tokens:,} tokens')
        if self._doing:
            parts.append(self._doing)
        return ' · '.join(parts)


def _window(rows: Sequence[tuple[int, Step]], width: int, room: int) -> tuple[int, int]:
    """Return which rows to show where not all of them fit: those around the first that is open."""
    heights = [1 + (depth * 2 + len(step.content) + len(step.note) + 30) // max(20, width) for depth, step in rows]
    if sum(heights) <= room:
        return 0, len(rows)
    first = next((at for at, (_, step) in enumerate(rows) if not step.resolved), len(rows) - 1)
    last, used = first + 1, heights[first]
    while True:
        # A third of the room looks back.
        if first > 0 and used + heights[first - 1] <= room and sum(heights[first - 1 : last]) <= room // 3:
            first -= 1
            used += heights[first]
        elif last < len(rows) and used + heights[last] <= room:
            used += heights[last]
            last += 1
        elif first > 0 and used + heights[first - 1] <= room:
            first -= 1
            used += heights[first]
        else:
            return first, last


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
    return f'{event.name} {shown(text if len(text) <= _ARGUMENTS else f"{text[: _ARGUMENTS - 1]}…")}'
