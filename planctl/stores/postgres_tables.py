"""The tables of a plan in Postgres: how they are made, read and written. Text of SQL and pure functions; no I/O.

The list of steps is that of pydantic-ai-harness. All that is planctl's lives beside it, keyed by table and session.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

from planctl.errors import InvalidName
from planctl.journal import LogRow
from planctl.plan import Plan, Step
from planctl.stores.postgres_rows import LOG, OURS, SESSION, SHARED, Placed, Rows

SCHEMA_VERSION = 1

_KEY = 'plan_table text NOT NULL, session text NOT NULL'

_CREATE = (
    'CREATE TABLE IF NOT EXISTS planctl_schema (version bigint NOT NULL, written_by text NOT NULL)',
    f'CREATE TABLE IF NOT EXISTS planctl_sessions ({_KEY}, revision bigint NOT NULL, next_id bigint NOT NULL, '
    'objective text NOT NULL, brief text NOT NULL, owner text, lease double precision, '
    'PRIMARY KEY (plan_table, session))',
    f'CREATE TABLE IF NOT EXISTS planctl_steps ({_KEY}, id text NOT NULL, seq bigint NOT NULL, content text NOT NULL, '
    'status text NOT NULL, active_form text NOT NULL, parent_id text, depends_on text NOT NULL, owner text, '
    'lease double precision, started_at double precision, note text NOT NULL, PRIMARY KEY (plan_table, session, id))',
    f'CREATE TABLE IF NOT EXISTS planctl_log ({_KEY}, revision bigint NOT NULL, number bigint NOT NULL, '
    'id text NOT NULL, at double precision NOT NULL, actor text NOT NULL, operation text NOT NULL, before text, '
    'after text, PRIMARY KEY (plan_table, session, revision, number))',
    f'CREATE TABLE IF NOT EXISTS planctl_replies ({_KEY}, key text NOT NULL, '
    'at double precision NOT NULL, reply text NOT NULL, '
    'PRIMARY KEY (plan_table, session, key))',
)


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement with its arguments. With `rows`, another number of rows touched means that somebody interfered."""

    text: str
    arguments: tuple[object, ...]
    rows: int | None = None


class Tables:
    """The statements for one session of one table."""

    def __init__(self, table: str, session: str) -> None:
        if table.lower().startswith('planctl_'):
            raise InvalidName(f'invalid table name {table!r}: names that begin with planctl_ are taken')
        # Unquoted, as the harness writes it, a name is folded to lower case; quoted, no word of SQL is reserved.
        self.table = table.lower()
        self.shared = f'"{self.table}"'
        self.session = session
        self._named = table

    # --- Locks and schema ----------------------------------------------------------------------------------------

    @property
    def lock(self) -> Statement:
        """Take the session's lock until the transaction ends. It exists before any row or table does."""
        return Statement(
            'SELECT pg_advisory_xact_lock(hashtextextended($1, 0))', (f'planctl/{self.table}/{self.session}',)
        )

    @property
    def missing(self) -> Statement:
        """Tell whether a table is missing; the last one that `create` makes stands for all of ours."""
        text = 'SELECT to_regclass($1) IS NULL OR to_regclass($2) IS NULL'
        return Statement(text, (self.shared, 'planctl_replies'))

    @property
    def shared_exists(self) -> Statement:
        """Tell whether the shared list is there."""
        return Statement('SELECT to_regclass($1) IS NOT NULL', (self.shared,))

    def create(self, written_by: str) -> Iterator[Statement]:
        """Make all tables. Locked, because two that create one table at once collide in the catalogue."""
        yield Statement('SELECT pg_advisory_xact_lock(hashtextextended($1, 0))', ('planctl',))
        # The harness creates its table under this one.
        yield Statement('SELECT pg_advisory_xact_lock(hashtext($1))', (self._named,))
        yield Statement(
            f'CREATE TABLE IF NOT EXISTS {self.shared} (session TEXT NOT NULL, seq BIGINT NOT NULL, id TEXT NOT NULL, '
            'content TEXT NOT NULL, status TEXT NOT NULL, active_form TEXT NOT NULL, parent_id TEXT, '
            'depends_on TEXT NOT NULL, PRIMARY KEY (session, id))',
            (),
        )
        yield from (Statement(text, ()) for text in _CREATE)
        yield Statement(
            'INSERT INTO planctl_schema (version, written_by) SELECT $1::bigint, $2::text '
            'WHERE NOT EXISTS (SELECT 1 FROM planctl_schema)',
            (SCHEMA_VERSION, written_by),
        )

    # --- Reading -------------------------------------------------------------------------------------------------

    @property
    def read_session(self) -> Statement:
        """Read the schema's version, who wrote it, the last revision of the log, and the session's row, or nulls."""
        columns = ', '.join(f's.{name}' for name in SESSION)
        logged = '(SELECT max(revision) FROM planctl_log WHERE plan_table = $1 AND session = $2)'
        return Statement(
            f'SELECT v.version, v.written_by, {logged}, {columns} FROM planctl_schema v '
            'LEFT JOIN planctl_sessions s ON s.plan_table = $1 AND s.session = $2 ORDER BY v.version DESC LIMIT 1',
            (self.table, self.session),
        )

    @property
    def read_rows(self) -> Statement:
        """Read both tables of steps, in order. Where our copy of a row is the same, its columns are left out."""
        ours = ', '.join(f'm.{name}' for name in SHARED)
        theirs = ', '.join(f'p.{name}' for name in SHARED)
        copied = ', '.join(f'CASE WHEN d.same THEN NULL ELSE m.{name} END' for name in SHARED)
        own = ', '.join(f'm.{name}' for name in OURS)
        return Statement(
            f'SELECT p.id, p.version, {theirs}, m.id, {own}, d.same, {copied} '
            f'FROM (SELECT *, xmin::text AS version FROM {self.shared} WHERE session = $1) p '
            'FULL JOIN (SELECT * FROM planctl_steps WHERE plan_table = $2 AND session = $1) m ON m.id = p.id '
            f'CROSS JOIN LATERAL (SELECT ({theirs}) IS NOT DISTINCT FROM ({ours}) AS same) d '
            'ORDER BY coalesce(p.seq, m.seq), coalesce(p.id, m.id) COLLATE "C"',
            (self.session, self.table),
        )

    @property
    def read_shared(self) -> Statement:
        """Read the shared list alone, in the same form, where planctl has no tables yet."""
        theirs = ', '.join(SHARED)
        return Statement(
            f'SELECT id, NULL, {theirs}, NULL FROM {self.shared} WHERE session = $1 ORDER BY seq, id COLLATE "C"',
            (self.session,),
        )

    def read_log(self, since: int, limit: int | None, step_id: str | None) -> Statement:
        """Read rows of the log, the newest first."""
        return Statement(
            f'SELECT {", ".join(LOG)} FROM planctl_log WHERE plan_table = $1 AND session = $2 AND revision > $3 '
            'AND ($4::text IS NULL OR id = $4) ORDER BY revision DESC, number DESC LIMIT $5',
            (self.table, self.session, since, step_id, limit),
        )

    def read_reply(self, key: str) -> Statement:
        """Read the reply that was kept for a key."""
        text = 'SELECT reply FROM planctl_replies WHERE plan_table = $1 AND session = $2 AND key = $3'
        return Statement(text, (self.table, self.session, key))

    # --- Writing -------------------------------------------------------------------------------------------------

    def write_session(self, before: Plan, after: Plan, *, new: bool) -> Iterator[Statement]:
        """Store what changed of the session's own row."""
        names = [name for name in SESSION if new or getattr(before, name) != getattr(after, name)]
        values = [getattr(after, name) for name in names]
        if new:
            marks = ', '.join(f'${number}' for number in range(3, len(names) + 3))
            yield Statement(
                f'INSERT INTO planctl_sessions (plan_table, session, {", ".join(names)}) VALUES ($1, $2, {marks})',
                (self.table, self.session, *values),
            )
        elif names:
            pairs = ', '.join(f'{name} = ${number}' for number, name in enumerate(names, 3))
            yield Statement(
                f'UPDATE planctl_sessions SET {pairs} WHERE plan_table = $1 AND session = $2',
                (self.table, self.session, *values),
            )

    def write_steps(self, rows: Rows, after: Placed, unread: Container[str] = ()) -> Iterator[Statement]:
        """Bring both tables from what was read to `after`: only the rows and columns that differ.

        A row of the shared list that another program wrote since it was read is not touched; the count then tells. One
        that could not be read, and no longer is among the `unread`, is written whole.
        """
        key = {'session': self.session}
        mended = {problem.id for problem in rows.problems if problem.id not in unread}
        yield from _write(self.shared, key, SHARED, rows.shared, after, rows.versions, mended)
        yield from _write('planctl_steps', {'plan_table': self.table, **key}, SHARED | OURS, rows.own, after)

    def write_log(self, log: Sequence[LogRow]) -> Iterator[Statement]:
        """Append log rows."""
        if log:
            columns = {name: [getattr(row, name) for row in log] for name in LOG}
            yield _insert('planctl_log', {'plan_table': self.table, 'session': self.session}, LOG, columns)

    def write_reply(self, key: str, reply: str, at: float) -> Statement:
        """Keep the reply to a key."""
        text = 'INSERT INTO planctl_replies (plan_table, session, key, at, reply) VALUES ($1, $2, $3, $4, $5)'
        return Statement(text, (self.table, self.session, key, at, reply))


def _value(name: str, at: int, step: Step) -> object:
    match name:
        case 'seq':
            return at
        case 'status':
            return step.status.value
        case 'depends_on':
            return json.dumps(list(step.depends_on)) if step.depends_on else '[]'
        case _:
            return getattr(step, name)


def _write(
    table: str,
    key: Mapping[str, str],
    columns: Mapping[str, str],
    before: Placed,
    after: Placed,
    versions: Mapping[str, str] | None = None,
    mended: Container[str] = (),
) -> Iterator[Statement]:
    gone = [step_id for step_id in before if step_id not in after]
    fresh = [step_id for step_id in after if step_id not in before]
    # Rows that change the same columns share a statement.
    changed: dict[tuple[str, ...], list[str]] = {(): gone} if gone else {}
    for step_id, (at, step) in after.items():
        was_at, was = before.get(step_id, (at, step))
        if was is not step or was_at != at:
            whole = step_id in mended
            names = tuple(n for n in columns if whole or _value(n, was_at, was) != _value(n, at, step))
            if names:
                changed.setdefault(names, []).append(step_id)
    for names, ids in changed.items():
        values = {f'new_{name}': (columns[name], [_value(name, *after[i]) for i in ids]) for name in names}
        verb = f'UPDATE {table} t SET {", ".join(f"{name} = n.new_{name}" for name in names)} FROM'
        yield _touch(verb if names else f'DELETE FROM {table} t USING', key, ids, values, versions)
    if fresh:
        lists = {name: [_value(name, *after[i]) for i in fresh] for name in columns}
        yield _insert(table, key, {'id': 'text', **columns}, {'id': fresh, **lists})


def _touch(
    verb: str,
    key: Mapping[str, str],
    ids: Sequence[str],
    values: Mapping[str, tuple[str, Sequence[object]]],
    versions: Mapping[str, str] | None,
) -> Statement:
    """Update or delete rows by id and, given versions, only those that nobody wrote since they were read."""
    lists: dict[str, tuple[str, Sequence[object]]] = {'id': ('text', ids), **values}
    where = [*(f't.{name} = ${number}' for number, name in enumerate(key, 1)), 't.id = n.id']
    if versions is not None:
        lists['version'] = ('text', [versions[step_id] for step_id in ids])
        where.append('t.xmin::text = n.version')
    source, arguments = _source(lists, len(key))
    rows = None if versions is None else len(ids)
    return Statement(f'{verb} {source} WHERE {" AND ".join(where)}', (*key.values(), *arguments), rows)


def _insert(
    table: str, key: Mapping[str, str], types: Mapping[str, str], columns: Mapping[str, Sequence[object]]
) -> Statement:
    marks = ', '.join(f'${number}' for number in range(1, len(key) + 1))
    source, arguments = _source({name: (kind, columns[name]) for name, kind in types.items()}, len(key))
    text = f'INSERT INTO {table} ({", ".join([*key, *types])}) SELECT {marks}, n.* FROM {source}'
    return Statement(text, (*key.values(), *arguments))


def _source(lists: Mapping[str, tuple[str, Sequence[object]]], taken: int) -> tuple[str, list[list[str | None]]]:
    """Return the lists as a table `n` and its arguments, the first of which comes behind `taken` others.

    All go as text, because a driver would have to ask the server what an array of anything else is.
    """
    columns = ', '.join(f'u.{name}::{kind} AS {name}' for name, (kind, _) in lists.items())
    arrays = ', '.join(f'${taken + number}::text[]' for number in range(1, len(lists) + 1))
    arguments = [[None if one is None else str(one) for one in values] for _, values in lists.values()]
    return f'(SELECT {columns} FROM unnest({arrays}) AS u({", ".join(lists)})) n', arguments
