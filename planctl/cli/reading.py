"""The commands that look at a plan: show, next, where. Only `next --claim` changes anything."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Annotated, Literal

import typer

from planctl.cli import complete
from planctl.cli.database import actor_of, read
from planctl.cli.failure import DONE, UNFINISHED
from planctl.cli.ids import resolve_all
from planctl.cli.output import emit, emit_json, emit_lines, is_terminal, marks
from planctl.cli.problems import complain_of, readable
from planctl.cli.settings import Settings
from planctl.errors import InputError
from planctl.plan import STATUSES, Plan, Step, TaskStatus
from planctl.sanitize import shown
from planctl.text import render_plan_text, step_details, step_line, tree_order

TYPE_CHECKING = False  # As `typing` has it, without importing it.
if TYPE_CHECKING:
    from planctl.cli.view import Frame
    from planctl.readiness import Ready

EXAMPLES = {
    'show': 'planctl show --open',
    'next': 'planctl next --claim --quiet',
    'where': 'planctl where --json',
}

LEASE = 3600.0
"""For how many seconds `next --claim` takes a step. Nothing renews it: whoever is done later lost nothing but that."""

Format = Literal['text', 'json', 'md', 'ids', 'prompt']


def show(
    settings: Settings,
    ids: Annotated[
        list[str] | None,
        typer.Argument(
            metavar='[ID...]', help='These steps in detail.', show_default=False, autocompletion=complete.ids
        ),
    ] = None,
    tree: Annotated[bool, typer.Option('--tree', help='With ids: what is under them as well, as a tree.')] = False,
    ready: Annotated[bool, typer.Option('--ready', help='Only steps that can be worked on now.')] = False,
    is_open: Annotated[bool, typer.Option('--open', help='Only steps that are not resolved.')] = False,
    status: Annotated[
        str | None,
        typer.Option(
            '--status',
            metavar='S,...',
            help='Only steps in one of these statuses.',
            autocompletion=complete.statuses,
        ),
    ] = None,
    output: Annotated[
        Format,
        typer.Option(
            '-o',
            '--output',
            help='How; md has the whole objective and the brief, prompt is what an agent is shown.',
            show_default=False,
        ),
    ] = 'text',
    check: Annotated[bool, typer.Option('--check', help='Exit 6 when the plan is not finished.')] = False,
    watch: Annotated[
        bool, typer.Option('--watch', help='Go on until Ctrl-C; with --check until every step is resolved.')
    ] = False,
    json_schema: Annotated[
        bool, typer.Option('--json-schema', help='Print the JSON Schema of what --json answers.')
    ] = False,
) -> int:
    """Show the plan, or some of its steps."""
    if json_schema:
        from planctl.cli.schema import schema

        emit_json(schema())
        return DONE
    statuses = None if status is None else _statuses(status)
    how: Format = 'json' if settings.json else output
    in_detail = bool(ids) and not tree

    def rows(plan: Plan) -> list[tuple[int, Step]]:
        named = resolve_all(plan, ids or ())
        return _rows(settings, plan, named, tree=tree, ready=ready, is_open=is_open, statuses=statuses)

    def draw(plan: Plan) -> None:
        chosen = rows(plan)
        if settings.json or not settings.quiet:
            _show(settings, plan, chosen, how, in_detail=in_detail)
        complain_of(plan)

    if watch:
        in_place = how == 'text' and not settings.quiet and is_terminal(redrawn=True)
        return _watch(settings, draw, rows if in_place else None, in_detail=in_detail, check=check)
    plan = read(settings)
    draw(plan)
    return UNFINISHED if check and not plan.progress.finished else DONE


def _watch(
    settings: Settings,
    draw: Callable[[Plan], None],
    rows: Callable[[Plan], list[tuple[int, Step]]] | None,
    *,
    in_detail: bool,
    check: bool,
) -> int:
    from planctl.cli.watch import watch

    def frame(plan: Plan) -> Frame:
        from planctl.cli.view import Frame

        assert rows is not None
        return Frame(plan, rows(plan), in_detail=in_detail)

    def is_over(plan: Plan) -> bool:
        return check and plan.progress.open == 0 and plan.progress.total > 0

    last = watch(settings, draw, None if rows is None else frame, is_over)
    return UNFINISHED if last is not None and not last.progress.finished else DONE


def _statuses(given: str) -> frozenset[TaskStatus]:
    names = [name.strip().lower().replace('-', '_') for name in given.split(',')]
    for name in names:
        if name not in STATUSES:
            raise InputError(f'there is no status {name!r}: it is one of {", ".join(STATUSES)}')
    return frozenset(STATUSES[name] for name in names)


def _rows(
    settings: Settings,
    plan: Plan,
    named: Sequence[str],
    *,
    tree: bool,
    ready: bool,
    is_open: bool,
    statuses: frozenset[TaskStatus] | None,
) -> list[tuple[int, Step]]:
    """Return the steps to show, with depths: as a tree, named ones in the order given, ready ones in that of `next`."""
    placed = tree_order(readable(plan))
    if named and tree:
        placed = list(_subtrees(placed, set(named)))
    elif named:
        placed = [(0, plan.step(step_id)) for step_id in named]
    if ready:
        from planctl.readiness import available

        shown_ids = {step.id for _, step in placed}
        free = available(plan, actor_of(settings), time.time())
        placed = [(0, entry.step) for entry in free if entry.step.id in shown_ids]
    return [
        (depth, step)
        for depth, step in placed
        if not (is_open and step.resolved) and (statuses is None or step.status in statuses)
    ]


def _subtrees(placed: Iterable[tuple[int, Step]], named: set[str]) -> Iterable[tuple[int, Step]]:
    top: int | None = None
    for depth, step in placed:
        if top is not None and depth > top:
            yield depth - top, step
        elif step.id in named:
            top = depth
            yield 0, step
        else:
            top = None


def _show(settings: Settings, plan: Plan, rows: list[tuple[int, Step]], output: Format, *, in_detail: bool) -> None:
    now = time.time()
    match output:
        case 'json':
            from planctl.cli.document import document

            emit_json(document('show', plan, [step for _, step in rows], actor=actor_of(settings), now=now))
        case 'ids':
            emit(''.join(f'{shown(step.id)}\n' for _, step in rows))
        case 'md':
            from planctl.markdown import render_markdown

            emit(render_markdown(plan, rows) + '\n', markup=True)
        case 'prompt':
            from planctl.reminder import OPENING, remind

            reminder = remind(plan, actor=actor_of(settings), now=now).text
            emit(f'{OPENING}{reminder}\n' if reminder else '')
        case 'text' if is_terminal():
            from planctl.cli.view import print_plan, print_steps

            if in_detail:
                print_steps(plan, [step for _, step in rows], now=now)
            else:
                print_plan(plan, rows, now=now)
        case 'text' if in_detail:
            emit(''.join(_detail(plan, step, now) for _, step in rows))
        case 'text':
            emit(render_plan_text(plan, rows) + '\n')


def _detail(plan: Plan, step: Step, now: float) -> str:
    lines = [step_line(plan, step), *(f'  {name}: {text}' for name, text in step_details(plan, step, now))]
    return '\n'.join(lines) + '\n'


def next_steps(
    settings: Settings,
    claim: Annotated[bool, typer.Option('--claim', help='Take them for an hour: nobody else is given them.')] = False,
    count: Annotated[int, typer.Option('-n', metavar='N', min=1, help='How many at most.')] = 1,
) -> int:
    """Show what can be worked on next; exit 3 when nothing can."""
    if claim:
        return _claim(settings, count)
    from planctl.readiness import available, none_available

    plan, actor, now = read(settings), actor_of(settings), time.time()
    ready = available(plan, actor, now)[:count]
    if not ready:
        raise none_available(plan, actor, now)
    if settings.json:
        from planctl.cli.document import document

        emit_json(document('next', plan, [entry.step for entry in ready], actor=actor, now=now))
    elif not settings.quiet:
        emit_lines(_ready_line(plan, entry, actor) for entry in ready)
    return 0


def _ready_line(plan: Plan, entry: Ready, actor: str) -> tuple[str, str]:
    head, line = _line_alone(plan, entry.step)
    if entry.open_children:
        line += ' (after its subtasks)'
    if entry.step.owner not in (None, actor):
        # One without a lease could be taken over; --claim takes none that somebody has begun.
        line += f' (taken by {shown(entry.step.owner or "")})'
    return head, line


def _line_alone(plan: Plan, step: Step) -> tuple[str, str]:
    """Return the line of a step that stands without those around it, as its head and the rest."""
    line = step_line(plan, step, marks=marks())
    head = step_line(plan, replace(step, content='', depends_on=(), note=''), marks=marks())
    parent = plan.get(step.parent_id) if step.parent_id else None
    part_of = '' if parent is None else f' (part of {shown(parent.id)} {shown(parent.content)})'
    return head, line.removeprefix(head) + part_of


def _claim(settings: Settings, count: int) -> int:
    from planctl.cli.answer import answer
    from planctl.cli.database import change
    from planctl.operations import Claim, Operation
    from planctl.readiness import available

    actor, now = actor_of(settings), time.time()

    def make(plan: Plan) -> Iterable[Operation]:
        free = [
            entry
            for entry in available(plan, actor, now)
            if not entry.open_children and entry.step.status is TaskStatus.pending
        ]
        # The first is refused when there is nothing to take; no more are asked for than there are.
        return [Claim(actor, LEASE)] * max(1, min(count, len(free)))

    outcome = change(settings, make, label='claim', now=now)
    taken = [step_id for remark in outcome.remarks if remark.code == 'claimed' for step_id in remark.ids]
    if settings.json or settings.quiet:
        answer(settings, 'next', outcome, taken, '')
    else:
        emit_lines(_line_alone(outcome.after, outcome.after.step(step_id)) for step_id in taken)
    return 0


def where(settings: Settings) -> int:
    """Say which database and session are meant, and who acts."""
    from planctl.locate import locate
    from planctl.plan import check_session

    session, actor = check_session(settings.session_name), actor_of(settings)
    place = locate(settings.db)
    if settings.json:
        emit_json(
            {
                'schema': 1,
                'kind': 'where',
                'session': session,
                'database': place.absolute,
                'table': place.table,
                'actor': actor,
            }
        )
    elif not settings.quiet:
        emit(f'database {shown(place.path)}\nsession  {shown(session)}\nactor    {shown(actor)}\n')
    return 0
