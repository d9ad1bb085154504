"""From the global options to a store, a read or a transaction of the session that is meant. No words, no rules."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable

from planctl.cli.output import complain, remember_stored
from planctl.cli.settings import Settings
from planctl.errors import InvalidName, SessionNotFound
from planctl.locate import Place, locate, user_at_host
from planctl.plan import Plan, check_session
from planctl.sanitize import clean

TYPE_CHECKING = False  # As `typing` has it, without importing it.
if TYPE_CHECKING:
    from typing import Any, TypeVar

    from planctl.change import Change
    from planctl.core import Request
    from planctl.operations import Operation
    from planctl.stores.base import BaseStore
    from planctl.stores.sqlite_file import SqliteFile

    T = TypeVar('T')


def actor_of(settings: Settings) -> str:
    """Return who acts: the actor that was given, else the user and the machine."""
    if settings.actor is None:
        return user_at_host()
    actor = clean(settings.actor)
    if not actor:
        raise InvalidName('the name of the actor is blank')
    return actor


def use(
    settings: Settings, place: Place, work: Callable[[BaseStore], Coroutine[Any, Any, T]], *, session: str | None = None
) -> T:
    """Return what `work` returns on the store of the session at the place. Only a server costs an event loop."""
    name = check_session(settings.session_name if session is None else session)
    if place.url is not None:
        from planctl.stores.opening import run

        return run(place, name, work)
    from planctl.core import drive

    return drive(work(file_at(place, name)))


def file_at(place: Place, session: str) -> SqliteFile:
    """Return the store of a session in the file at the place; nothing is opened yet."""
    from planctl.stores.sqlite_file import SqliteFile

    return SqliteFile(place.path, session=session, table=place.table, journal=place.journal)


def read(settings: Settings) -> Plan:
    """Return the plan of the session. Raises `DatabaseNotFound` and `SessionNotFound`; creates nothing."""
    check_session(settings.session_name)
    place = locate(settings.db)
    plan = use(settings, place, lambda store: store.read())
    require_session(plan, place)
    return plan


def change(
    settings: Settings, *requests: Request, label: str, create: bool = False, now: float | None = None
) -> Change:
    """Apply the requests to the plan of the session in one transaction, and return what changed.

    A database and a session that are not there are made with `create`, which is said on stderr; else they are
    `DatabaseNotFound` and `SessionNotFound`.
    """
    from planctl.core import apply

    check_session(settings.session_name)
    actor = actor_of(settings)
    place = locate(settings.db, create=create)
    is_new = not place.exists

    def session_is_there(plan: Plan) -> Iterable[Operation]:
        if not create:
            require_session(plan, place)
        return ()

    changed = use(
        settings, place, lambda store: apply(store, session_is_there, *requests, actor=actor, label=label, now=now)
    )
    if changed.changed:
        remember_stored()
    # Of several that find none at the same time one is the first to store a plan.
    if is_new and place.exists and changed.before.revision == 0:
        complain(f'planctl: new database {place.shown}')
    return changed


def require_session(plan: Plan, place: Place) -> None:
    """Raise `SessionNotFound` for a session that was never written, or removed."""
    if plan.removed or (plan.revision == 0 and not plan.steps):
        raise SessionNotFound(f'there is no session {plan.session!r} in {place.shown}')
