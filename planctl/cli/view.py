"""A plan on a terminal: a tree with glyphs and words, a bar, what waits for what, how long it has been under way.

Texts are `rich.text.Text`, never markup; ids are never cut; everything wraps at the width of the terminal.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from shutil import get_terminal_size

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from planctl.cli.output import carried, emit
from planctl.plan import Plan, Step, TaskStatus
from planctl.sanitize import shown, shown_block
from planctl.text import GLYPHS, MARKS, WORDS, elapsed, progress_line, state_of, step_details, tree_order, waits_for

# Colours that can be read on light and on dark; none carries a meaning that no word carries.
STYLES = {
    TaskStatus.pending: '',
    TaskStatus.in_progress: 'cyan',
    TaskStatus.completed: 'green',
    TaskStatus.cancelled: 'dim',
    TaskStatus.blocked: 'red',
}
BAR = 30
"""The most cells that the bar takes."""
NARROWEST = 12
"""How many cells a text gets at least; with fewer beside the id it goes below."""


@dataclass(frozen=True)
class PlanView:
    """A plan as a Rich renderable: the first line of its objective, the bar and the steps."""

    plan: Plan
    now: float
    rows: Sequence[tuple[int, Step]] | None = None
    """The steps with their depths; `None` is the whole tree."""
    room: int | None = None
    """How many lines there are: where that is too few, the rows around the first open step are shown."""
    screen: int | None = None
    """The lines of a screen that is scrolled: under a plan that is taller the bar is repeated, where it is seen."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the objective, the bar and the steps."""
        yield from _rendered(console, self._lines(console, options))

    def _lines(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        rows = tree_order(self.plan.steps) if self.rows is None else self.rows
        width, ascii_only = options.max_width, not options.encoding.startswith('utf')
        id_width = min(max((len(shown(step.id)) for _, step in rows), default=0), 8)

        @cache
        def lines(at: int) -> list[Text]:
            depth, step = rows[at]
            return [*self._step(console, depth, step, width, id_width, ascii_only)]

        progress = [*_wrap(console, self._progress(width, ascii_only), width)]
        head = [*self._objective(console, width), *progress, *([Text()] if rows else [])]
        yield from head
        first, last = 0, len(rows)
        if self.room is not None:
            first, last = window([step for _, step in rows], lambda at: len(lines(at)), self.room - len(head))
        for at in range(first, last):
            yield from lines(at)
        if last - first < len(rows):
            which = f'steps {first + 1} to {last}' if last - first > 1 else f'step {last}'
            yield Text(f'{which} of {len(rows)}', 'dim')
        if self.screen is not None and len(head) + sum(len(lines(at)) for at in range(first, last)) >= self.screen:
            yield from (Text(), *progress)

    def _objective(self, console: Console, width: int) -> Iterator[Text]:
        # The first line says what it is about. The rest, often a whole document, would push the steps off the screen.
        first, _, more = shown_block(self.plan.objective).partition('\n')
        if first:
            yield from _wrap(console, Text(f'{first} …' if more else first, 'bold'), width)

    def _progress(self, width: int, ascii_only: bool) -> Text:
        counts = self.plan.progress
        line = progress_line(counts) if ascii_only else progress_line(counts).replace(', ', ' · ')
        if counts.total == 0:
            return Text(line, 'dim')
        cells = max(5, min(BAR, width - len(line) - 2 if width >= len(line) + 7 else width))
        filled = cells * counts.resolved // counts.total
        done, rest = ('#', '-') if ascii_only else ('█', '░')
        bar = Text(done * filled, 'green').append(rest * (cells - filled), 'dim')
        state = state_of(counts)
        style = 'green' if state == 'finished' else ''
        return Text.assemble(bar, '  ' if width >= len(line) + 7 else '\n', (line, style))

    def _step(
        self, console: Console, depth: int, step: Step, width: int, id_width: int, ascii_only: bool
    ) -> Iterator[Text]:
        style = STYLES[step.status]
        head = Text('  ' * min(depth, max(0, (width - NARROWEST) // 4)))
        head.append((MARKS if ascii_only else GLYPHS)[step.status], style)
        head.append(f' {shown(step.id):>{id_width}}  ', 'bold' if step.status is TaskStatus.in_progress else '')
        is_active = step.status is TaskStatus.in_progress and step.active_form
        text = Text(shown(step.active_form if is_active else step.content), _text_style(step))
        if said := ('; ' if ascii_only else ' · ').join(self._said(step)):
            text.append('  ').append(said, 'dim' if step.resolved else f'not bold {style or "dim"}')
        yield from _hang(console, head, text, width)

    def _said(self, step: Step) -> Iterator[str]:
        """Yield the word for the status and what there is to know beside it."""
        word = WORDS[step.status]
        yield word if step.started_at is None else f'{word} {elapsed(self.now - step.started_at)}'
        if step.owner:
            yield shown(step.owner)
        if waits := waits_for(self.plan, step):
            yield f'waits for {shown(", ".join(waits))}'
        if step.note:
            yield shown(step.note)


@dataclass(frozen=True)
class StepView:
    """One step in detail as a Rich renderable."""

    plan: Plan
    step: Step
    now: float

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the step and, below it, its details."""
        yield from _rendered(console, self._lines(console, options))

    def _lines(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        step, width = self.step, options.max_width
        ascii_only = not options.encoding.startswith('utf')
        marks = MARKS if ascii_only else GLYPHS
        head = Text().append(marks[step.status], STYLES[step.status]).append(f' {shown(step.id)}  ')
        yield from _hang(console, head, Text(shown(step.content), 'bold'), width)
        for name, text in step_details(self.plan, step, self.now, marks):
            yield from _hang(console, Text(f'    {name}: ', 'dim'), Text(text), width)


@dataclass(frozen=True)
class LineView:
    """A line of plain text as a Rich renderable: a head, and what is wrapped beside it."""

    head: str
    text: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the line."""
        yield from _rendered(console, _hang(console, Text(self.head), Text(self.text), options.max_width))


@dataclass(frozen=True)
class Frame:
    """A plan, or steps in detail, redrawn in place: as much as the terminal has lines for, unless it is the `whole`."""

    plan: Plan
    rows: Sequence[tuple[int, Step]]
    in_detail: bool = False
    whole: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the rows around the first open step."""
        now = time.time()
        if self.in_detail:
            yield from (StepView(self.plan, step, now) for _, step in self.rows)
            return
        # Below what fills the terminal there is a line for the cursor.
        yield PlanView(self.plan, now, self.rows, None if self.whole else console.size.height - 1)


def window(steps: Sequence[Step], height: Callable[[int], int], room: int) -> tuple[int, int]:
    """Return which steps to show in so many lines, one of which says so where not all fit: those around the first open.

    `height` is asked how many lines the step at a position takes, of those alone that may be shown. One is always.
    """
    used = 0
    for at in range(len(steps)):
        if (used := used + height(at)) > room:
            break
    else:
        return 0, len(steps)
    room -= 1
    first = next((at for at, step in enumerate(steps) if not step.resolved), len(steps) - 1)
    last, used, back = first + 1, height(first), 0
    while True:
        # A third of the room looks back.
        before = height(first - 1) if first > 0 else 0
        if before and used + before <= room and (back + before <= room // 3 or last == len(steps)):
            first, used, back = first - 1, used + before, back + before
        elif last < len(steps) and used + height(last) <= room:
            last, used = last + 1, used + height(last)
        else:
            return first, last


def print_plan(plan: Plan, rows: Sequence[tuple[int, Step]], *, now: float) -> None:
    """Write the plan to the terminal."""
    _print([PlanView(plan, now, rows, screen=get_terminal_size().lines)])


def print_steps(plan: Plan, steps: Iterable[Step], *, now: float) -> None:
    """Write steps in detail to the terminal."""
    _print([StepView(plan, step, now) for step in steps])


def print_lines(lines: Iterable[tuple[str, str]]) -> None:
    """Write lines of plain text to the terminal, each a head and what is wrapped beside it."""
    _print(LineView(head, text) for head, text in lines)


def _print(views: Iterable[PlanView | StepView | LineView]) -> None:
    console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
    # Written once, by the one place that knows how to; Rich would end on its own terms when nobody reads.
    with console.capture() as captured:
        for view in views:
            console.print(view)
    emit(captured.get())


def _text_style(step: Step) -> str:
    match step.status:
        case TaskStatus.in_progress:
            return 'bold'
        case TaskStatus.completed | TaskStatus.cancelled:
            return 'dim'
        case _:
            return ''


def _rendered(console: Console, lines: Iterable[Text]) -> RenderResult:
    """Render lines that are wrapped already; as texts they would be wrapped again."""
    for line in lines:
        # Assembled, since the style of a text that has no other would be left out.
        yield from Text.assemble(line).render(console, end='\n')


def _hang(console: Console, head: Text, text: Text, width: int) -> Iterator[Text]:
    """Yield the lines of `text` behind `head`, each indented as far; below it where there is no room."""
    head, text = _carried(console, head), _carried(console, text)
    indent = head.cell_len
    if indent + text.cell_len <= width:  # Nearly always; wrapping is by far the dearest part.
        yield Text.assemble(head, text)
        return
    if width - indent < NARROWEST:
        yield from _wrap(console, head, width)
        indent = max(0, min(4, width - NARROWEST))
        head = Text(' ' * indent)
    for line in text.wrap(console, max(1, width - indent), overflow='fold'):
        line.rstrip()
        yield Text.assemble(head, line)
        head = Text(' ' * indent)


def _wrap(console: Console, text: Text, width: int) -> Iterator[Text]:
    yield from _carried(console, text).wrap(console, max(1, width), overflow='fold')


def _carried(console: Console, text: Text) -> Text:
    """Return the text as the terminal carries it, before it is laid out: escapes take more room."""
    encoding = console.encoding
    if encoding.startswith('utf') or carried(text.plain, encoding) == text.plain:
        return text
    return Text.assemble(*((carried(segment.text, encoding), segment.style or '') for segment in text.render(console)))
