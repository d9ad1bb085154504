"""The commands that change a plan. Each turns its words into operations and their outcome into an answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

import typer

from planctl.cli import complete
from planctl.cli.answer import added, answer, edited, moved, removed, restated
from planctl.cli.database import change
from planctl.cli.ids import resolve, resolve_all
from planctl.cli.settings import Settings
from planctl.cli.stdin import read_stdin
from planctl.errors import InputError
from planctl.operations import Add, Depend, Describe, Edit, Move, Operation, Remove, SetStatus, Undepend
from planctl.plan import Plan, TaskStatus, check_text
from planctl.sanitize import clean, is_visible

Ids = Annotated[
    list[str],
    typer.Argument(metavar='ID...', help='One or more steps.', show_default=False, autocompletion=complete.ids),
]
Note = Annotated[str | None, typer.Option('-m', '--note', metavar='TEXT', help='Why, kept on the step.')]
Before = Annotated[
    str | None,
    typer.Option(
        '--before', metavar='ID', help='Place it before this step, on its level.', autocompletion=complete.ids
    ),
]
After = Annotated[
    str | None,
    typer.Option('--after', metavar='ID', help='Place it after this step, on its level.', autocompletion=complete.ids),
]

EXAMPLES = {
    'add': "planctl add 'Write the tests' --depends-on 1",
    'edit': "planctl edit 3 --content 'Write all the tests' --depends-on 2",
    'start': 'planctl start 3',
    'done': "planctl done 3 -m 'all green'",
    'cancel': "planctl cancel 4 -m 'not needed any more'",
    'block': "planctl block 5 -m 'waits for a key'",
    'reopen': 'planctl reopen 3',
    'rm': 'planctl rm 7 8',
}


def add(
    settings: Settings,
    words: Annotated[
        list[str], typer.Argument(metavar='TEXT...', help='The text of one step; - reads a step a line from stdin.')
    ],
    under: Annotated[
        str | None,
        typer.Option('--under', metavar='ID', help='Make it a subtask of this step.', autocompletion=complete.ids),
    ] = None,
    depends_on: Annotated[
        list[str] | None,
        typer.Option(
            '--depends-on', metavar='ID', help='A step to wait for; may be repeated.', autocompletion=complete.ids
        ),
    ] = None,
    before: Before = None,
    after: After = None,
    active_form: Annotated[
        str, typer.Option('--active-form', metavar='TEXT', help='The text while it is in progress.', show_default=False)
    ] = '',
) -> int:
    """Add a step, or with - one for each line of stdin. Makes ./plan.db where there is none yet."""
    _only_one(before, after)
    texts = _lines() if words == ['-'] else [' '.join(words)]
    for text in texts:
        check_text(text)

    def make(plan: Plan) -> Iterable[Operation]:
        parent = _level(plan, before, after) if under is None else resolve(plan, under)
        waits = tuple(resolve_all(plan, depends_on or ()))
        next_to = _place(plan, before, after)
        return [
            Add(text, parent_id=parent, depends_on=waits, before=next_to, active_form=active_form) for text in texts
        ]

    outcome = change(settings, make, label='add', create=True)
    answer(settings, 'add', outcome, [step.id for step in outcome.created], added(outcome, outcome.created))
    return 0


def edit(
    settings: Settings,
    step: Annotated[
        str | None,
        typer.Argument(metavar='[ID]', help='The step; without one, the session.', autocompletion=complete.ids),
    ] = None,
    content: Annotated[str | None, typer.Option('--content', metavar='TEXT', help='New text; - reads stdin.')] = None,
    active_form: Annotated[
        str | None, typer.Option('--active-form', metavar='TEXT', help='New text while it is in progress.')
    ] = None,
    under: Annotated[
        str | None,
        typer.Option(
            '--under',
            metavar='ID',
            help='Make it a subtask of this step; none: of no step.',
            autocompletion=complete.ids,
        ),
    ] = None,
    depends_on: Annotated[
        list[str] | None,
        typer.Option('--depends-on', metavar='ID', help='One more step to wait for.', autocompletion=complete.ids),
    ] = None,
    drop_dependency: Annotated[
        list[str] | None,
        typer.Option(
            '--drop-dependency', metavar='ID', help='A step to wait for no longer.', autocompletion=complete.ids
        ),
    ] = None,
    before: Before = None,
    after: After = None,
    objective: Annotated[
        str | None, typer.Option('--objective', metavar='TEXT', help='What the plan is for; - reads stdin.')
    ] = None,
    brief: Annotated[
        str | None, typer.Option('--brief', metavar='TEXT', help='What an agent has to know to do it; - reads stdin.')
    ] = None,
) -> int:
    """Change a step, or without an id the objective and the brief of the session.

    On a terminal and without options: the step with its subtasks, or the whole plan, in $VISUAL or $EDITOR.
    """
    _only_one(before, after)
    of_step = (content, active_form, under, depends_on, drop_dependency, before, after)
    of_session = (objective, brief)
    if all(value is None for value in (*of_step, *of_session)):
        return _edit_text(settings, step)
    if [content, objective, brief].count('-') > 1:
        raise InputError('stdin can be read only once')
    if step is None:
        if any(value is not None for value in of_step):
            raise InputError('say which step to change')
        describe = Describe(objective=_read(objective), brief=_read(brief))
        outcome = change(settings, describe, label='describe', create=True)
        answer(settings, 'edit', outcome, (), edited(outcome, ()))
        return 0
    if any(value is not None for value in of_session):
        raise InputError('the objective and the brief belong to the session: leave the id out')
    text = _read(content)
    if text is not None:
        check_text(text)
    named: list[str] = []

    def make(plan: Plan) -> Iterable[Operation]:
        step_id = resolve(plan, step)
        named[:] = [step_id]
        if text is not None or active_form is not None:
            yield Edit(step_id, text, active_form)
        current = plan.step(step_id).depends_on
        dropped = [word if word in current else resolve(plan, word) for word in drop_dependency or ()]
        yield from (Undepend(step_id, other) for other in dict.fromkeys(dropped) if other in current)
        for other in resolve_all(plan, depends_on or ()):
            if other in dropped:
                raise InputError(f'{other} is both to be waited for and not to be')
            if other not in current:
                yield Depend(step_id, other)
        if under is not None:
            yield Move(step_id, top=True) if under == 'none' else Move(step_id, under=resolve(plan, under))
        elif (before or after) and (level := _level(plan, before, after)) != plan.step(step_id).parent_id:
            yield Move(step_id, under=level, top=level is None)
        if before is not None or after is not None:
            yield Move(
                step_id,
                before=None if before is None else resolve(plan, before),
                after=None if after is None else resolve(plan, after),
            )

    outcome = change(settings, make, label='edit')
    answer(settings, 'edit', outcome, named, edited(outcome, named))
    return 0


def _edit_text(settings: Settings, step: str | None) -> int:
    from planctl.cli.editor import edit_text, is_possible

    if not is_possible():
        raise InputError(
            'say what to change; without options a plan is edited on a terminal', hint='planctl edit --help'
        )
    outcome, named = edit_text(settings, step)
    answer(settings, 'edit', outcome, named, restated(outcome))
    return 0


def start(settings: Settings, ids: Ids, note: Note = None) -> int:
    """Say that steps are being worked on."""
    return _move(settings, 'start', ids, note)


def done(
    settings: Settings,
    ids: Ids,
    note: Note = None,
    cascade: Annotated[bool, typer.Option('--cascade', help='Complete their open subtasks as well.')] = False,
) -> int:
    """Complete steps."""
    return _move(settings, 'done', ids, note, cascade)


def cancel(
    settings: Settings,
    ids: Ids,
    note: Note = None,
    cascade: Annotated[bool, typer.Option('--cascade', help='Cancel their open subtasks as well.')] = False,
) -> int:
    """Cancel steps: they need not be done, and nobody waits for them any more."""
    return _move(settings, 'cancel', ids, note, cascade)


def block(settings: Settings, ids: Ids, note: Note = None) -> int:
    """Say that steps cannot go on, and with -m why."""
    return _move(settings, 'block', ids, note)


def reopen(
    settings: Settings,
    ids: Ids,
    note: Note = None,
    cascade: Annotated[bool, typer.Option('--cascade', help='Open what they are a part of as well.')] = False,
) -> int:
    """Put steps back to pending, whatever their status."""
    return _move(settings, 'reopen', ids, note, cascade)


def remove(
    settings: Settings,
    ids: Ids,
    cascade: Annotated[bool, typer.Option('--cascade', help='Remove their subtasks as well.')] = False,
) -> int:
    """Take steps out of the plan; who waited for them no longer does."""

    def make(plan: Plan) -> Iterable[Operation]:
        return [Remove(step_id, cascade) for step_id in resolve_all(plan, ids)]

    outcome = change(settings, make, label='remove')
    answer(settings, 'rm', outcome, [step.id for step in outcome.deleted], removed(outcome))
    return 0


_MOVES = {
    'start': (TaskStatus.in_progress, 'started'),
    'done': (TaskStatus.completed, 'done'),
    'cancel': (TaskStatus.cancelled, 'cancelled'),
    'block': (TaskStatus.blocked, 'blocked'),
    'reopen': (TaskStatus.pending, 'reopened'),
}
"""The status that each of these commands puts a step into, and what is said of it then."""


def _move(settings: Settings, verb: str, ids: Sequence[str], note: str | None, cascade: bool = False) -> int:
    status, past = _MOVES[verb]
    named: list[str] = []

    def make(plan: Plan) -> Iterable[Operation]:
        named[:] = resolve_all(plan, ids)
        return [SetStatus(step_id, status, cascade, note) for step_id in named]

    outcome = change(settings, make, label='set_status')
    answer(settings, verb, outcome, named, moved(outcome, named, past, status))
    return 0


def _only_one(before: str | None, after: str | None) -> None:
    if before is not None and after is not None:
        raise InputError('a step is placed --before or --after another, not both')


def _level(plan: Plan, before: str | None, after: str | None) -> str | None:
    """Return what the step is under that another is placed beside: anywhere else it would not be seen there."""
    word = after if before is None else before
    return None if word is None else plan.step(resolve(plan, word)).parent_id


def _place(plan: Plan, before: str | None, after: str | None) -> str | None:
    """Return the step that new ones go before, so that several keep their order; `None` is the end."""
    if before is not None:
        return resolve(plan, before)
    if after is None:
        return None
    order = [step.id for step in plan.steps]
    at = order.index(resolve(plan, after)) + 1
    return order[at] if at < len(order) else None


def _read(text: str | None) -> str | None:
    return read_stdin() if text == '-' else text


def _lines() -> list[str]:
    import re

    lines = [line for line in re.split('[\r\n]+', read_stdin()) if is_visible(clean(line))]
    if not lines:
        raise InputError('there is no step in stdin: it takes one a line')
    return lines
