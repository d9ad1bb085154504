"""The commands that bring plans in and out: import and export."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from os.path import splitext
from typing import Annotated, Any, Literal

import typer

from planctl.cli.database import actor_of, change, read
from planctl.cli.problems import complain_of, readable
from planctl.cli.settings import Settings
from planctl.errors import InputError, PlanctlError, SessionNotFound, StorageError, Unsupported
from planctl.sanitize import clean
from planctl.text import counted

TYPE_CHECKING = False  # As `typing` has it, without importing it.
if TYPE_CHECKING:
    from planctl.change import Change
    from planctl.exchange import Document, Import
    from planctl.operations import Operation
    from planctl.plan import Plan

EXAMPLES = {
    'import': 'planctl import checklist.md --dry-run',
    'export': 'planctl export plan.json',
}

Output = Literal['json', 'md', 'mermaid', 'svg', 'html']

_BY_NAME: dict[str, Output] = {
    'json': 'json',
    'md': 'md',
    'markdown': 'md',
    'mmd': 'mermaid',
    'mermaid': 'mermaid',
    'svg': 'svg',
    'html': 'html',
    'htm': 'html',
}


def import_plan(
    settings: Settings,
    file: Annotated[
        str, typer.Argument(metavar='FILE|-', help='A Markdown checklist, JSON or JSON lines; - reads stdin.')
    ],
    append: Annotated[bool, typer.Option('--append', help='Add to the plan that is there (the default).')] = False,
    replace: Annotated[
        bool, typer.Option('--replace', help='Put it in the place of the plan, and keep all its ids.')
    ] = False,
    dry_run: Annotated[bool, typer.Option('--dry-run', help='Only say what would come of it.')] = False,
) -> int:
    """Bring in a plan from a file, all of it or nothing. Makes ./plan.db where there is none yet.

    A step whose id is taken gets a new one; with --json `renamed` says which.
    """
    from planctl.exchange import bring_in

    if append and replace:
        raise InputError('--append and --replace exclude each other')
    document = _document(file)
    actor, now = actor_of(settings), time.time()
    made: list[Import] = []

    def bring(plan: Plan) -> Iterable[Operation]:
        made[:] = [bring_in(plan, document, replacing=replace, actor=actor, now=now)]
        return made[0].operations

    try:
        if dry_run:
            outcome = _preview(settings, bring, actor, now)
        else:
            outcome = change(settings, bring, label='import', create=True, now=now)
    except PlanctlError as error:
        if made:
            _place(error, made[0], document)
        raise
    _answer(settings, outcome, made[0], dry_run=dry_run)
    return 0


def _place(error: PlanctlError, made: Import, document: Document) -> None:
    """Say which steps of the text an error is about: the ids that they would have had tell nobody anything."""
    texts = {step_id: item.content for step_id, item in zip(made.ids, document.items, strict=True)}
    if named := [f'{step_id} is {clean(texts[step_id])[:60]!r}' for step_id in error.ids if step_id in texts]:
        error.hint = f'in the text, {", ".join(named)}'


def _document(file: str) -> Document:
    from planctl.exchange import FORMATS, parse

    if file == '-':
        from planctl.cli.stdin import read_stdin

        return parse(read_stdin())
    try:
        with open(file, 'rb') as opened:
            data = opened.read()
    except (OSError, ValueError) as error:
        raise InputError(f'{file} cannot be read: {getattr(error, "strerror", None) or error}') from error
    from planctl.cli.overwriting import DATABASE

    if data.startswith(DATABASE):
        raise InputError(
            f'{file} is a database', hint='to take a plan out of it: planctl --db FILE export | planctl import -'
        )
    # UTF-16 where the first two bytes say so, as Windows writes it.
    encoding = 'utf-16' if data[:2] in (b'\xff\xfe', b'\xfe\xff') else 'utf-8-sig'
    return parse(data.decode(encoding, 'replace'), FORMATS.get(file.rpartition('.')[2].lower()))


def _preview(settings: Settings, request: Callable[[Plan], Iterable[Operation]], actor: str, now: float) -> Change:
    """Return what the change would be, on the plan as it is; nothing is made, not even a file."""
    from planctl import rules
    from planctl.errors import DatabaseNotFound
    from planctl.plan import Plan, check_session

    session = check_session(settings.session_name)
    try:
        plan = read(settings)
    except (DatabaseNotFound, SessionNotFound):
        plan = Plan(session)
    return rules.apply(plan, request(plan), actor=actor, now=now)


def _answer(settings: Settings, outcome: Change, made: Import, *, dry_run: bool) -> None:
    from planctl.cli.answer import brought
    from planctl.cli.output import emit, emit_json, emit_text
    from planctl.sanitize import shown

    if settings.json:
        from planctl.cli.document import document

        steps = [step for step_id in made.ids if (step := outcome.after.get(step_id)) is not None]
        emit_json(
            document(
                'import',
                outcome.after,
                steps,
                actor=actor_of(settings),
                now=time.time(),
                changed=[entry.step.id for entry in outcome.steps],
                unblocked=[step.id for step in outcome.unblocked],
                renamed=dict(made.renamed),
                dry_run=dry_run,
            )
        )
    elif settings.quiet:
        emit(''.join(f'{shown(step.id)}\n' for step in outcome.created))
    else:
        emit_text(brought(outcome, made.ids, made.renamed, dry_run=dry_run))


def export(
    settings: Settings,
    file: Annotated[
        str | None, typer.Argument(metavar='[FILE]', help='Where to; its name says how. Default: stdout.')
    ] = None,
    output: Annotated[
        Output | None,
        typer.Option('-o', '--output', help='How: json loses nothing, md can be imported too.', show_default=False),
    ] = None,
    db: Annotated[
        str | None,
        typer.Option('--db', metavar='FILE', help='Copy the whole database into this new file instead.'),
    ] = None,
) -> int:
    """Write the plan to a file or to stdout, or copy the whole database.

    --db in front of the command names the database that is read.
    """
    if db is not None:
        if file is not None or output is not None:
            raise InputError('a copy of the whole database has no other file and no format')
        return _copy(settings, db)
    named = None if file == '-' else file
    if named is not None:
        from planctl.cli.overwriting import require_no_database

        require_no_database(named)
    how = output or _format_of(named or '')
    if settings.json and named is None and how != 'json':
        raise InputError(f'--json answers with JSON: name a file for {how}')
    plan = read(settings)
    if named is None and settings.quiet and not settings.json:
        return 0
    complain_of(plan)
    if named is None:
        _to_stdout(settings, plan, how)
        return 0
    from planctl.cli.overwriting import write_over

    text = _rendered(settings, plan, how)
    try:
        write_over(named, text)
    except (OSError, ValueError) as error:
        raise StorageError(f'{named} cannot be written: {getattr(error, "strerror", None) or error}') from error
    _written(settings, plan.session, named, how, f'exported {counted(len(plan.steps), "step")} to {named}')
    return 0


def _format_of(name: str) -> Output:
    """Return how a file of this name is written: as JSON where it ends in nothing that says how."""
    ending = splitext(name)[1].removeprefix('.')
    if not ending:
        return 'json'
    if (how := _BY_NAME.get(ending.lower())) is None:
        raise InputError(
            f'{name}: .{ending} does not say how to write a plan',
            hint=f'say it with -o: {", ".join(dict.fromkeys(_BY_NAME.values()))}; a whole database: --db FILE',
        )
    return how


def _to_stdout(settings: Settings, plan: Plan, how: Output) -> None:
    from planctl.cli.output import emit, emit_json

    if how == 'json':
        emit_json(_document_of(settings, plan))
    else:
        emit(_rendered(settings, plan, how), markup=how != 'mermaid')


def _document_of(settings: Settings, plan: Plan) -> dict[str, Any]:
    from planctl.cli.document import document

    return document('export', plan, readable(plan), actor=actor_of(settings), now=time.time(), exact=True)


def _rendered(settings: Settings, plan: Plan, how: Output) -> str:
    from planctl.text import tree_order

    steps = readable(plan)
    match how:
        case 'json':
            from planctl.cli.output import dump

            return dump(_document_of(settings, plan)) + '\n'
        case 'md':
            from planctl.markdown import render_markdown

            return render_markdown(plan, tree_order(steps)) + '\n'
        case 'mermaid':
            from planctl.exchange import render_mermaid

            return render_mermaid(plan, steps) + '\n'
        case 'svg' | 'html':
            from planctl.cli.picture import picture

            return picture(plan, steps, how, now=time.time())


def _copy(settings: Settings, target: str) -> int:
    from planctl.locate import locate, parse

    place, copy = locate(settings.db), parse(target)
    if place.url is not None or copy.url is not None:
        raise Unsupported('only a database in a file can be copied as a whole', hint='planctl session copy')
    if copy.exists:
        raise StorageError(
            f'{copy.path} is there already, and a copy is a new file',
            hint='to read from it, name it in front: planctl --db FILE export',
        )
    from planctl.stores.sqlite_file import PlanFile

    PlanFile(place.path, table=place.table).backup(copy.path)
    _written(settings, settings.session_name, copy.path, 'db', f'copied {place.shown} to {copy.path}')
    return 0


def _written(settings: Settings, session: str, file: str, how: str, text: str) -> None:
    from os.path import abspath

    from planctl.cli.output import emit, emit_json
    from planctl.sanitize import shown

    if settings.json:
        emit_json({'schema': 1, 'kind': 'export', 'session': session, 'file': abspath(file), 'format': how})
    elif not settings.quiet:
        emit(f'{shown(text)}\n')  # A path that was broken could not be copied.
