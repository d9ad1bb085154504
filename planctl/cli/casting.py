"""Who plans, who carries out and on which store, from the options of `planctl run`. Nothing is run or opened here."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from planctl.agent.job import Wanted
from planctl.agent.models import OFFLINE
from planctl.agent.nearest import MCP_FILE
from planctl.agent.roles import own_planning, require_folders
from planctl.agent.spec import LoadedAgent, load_agent, shown_path
from planctl.cli.settings import Settings
from planctl.errors import InputError
from planctl.locate import locate
from planctl.plan import check_session
from planctl.stores.adapter import inner
from planctl.stores.base import BaseStore
from planctl.stores.sqlite import SqlitePlanStore

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from planctl.agent.mcp import Servers
    from planctl.agent.rehearsal import Rehearsal


class Cast(NamedTuple):
    """Who plans and who carries out; a model is `None` where its phase is not wanted."""

    planner: LoadedAgent
    executor: LoadedAgent
    planner_model: Model | None
    executor_model: Model | None
    servers: Sequence[Servers] = ()
    """The MCP servers of both, each once."""
    rehearsal: Rehearsal | None = None
    """What records the models, or is played in their place."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What is given to agents beside what they bring: servers, and whether their models are recorded or played."""

    mcp: str | None = None
    record: str | None = None
    replay: str | None = None

    def set(self, cast: Cast, folder: Path) -> Cast:
        """Return the cast with its servers, and with its models recorded or played."""
        known: dict[Path, Servers] = {}
        planner = self._served(cast.planner, folder, known)
        executor = planner if cast.executor is cast.planner else self._served(cast.executor, folder, known)
        staged = cast._replace(planner=planner, executor=executor, servers=list(known.values()))
        if self.replay is None and self.record is None:
            return staged
        import os

        from planctl.agent.essence import Secrets
        from planctl.agent.rehearsal import BEGINNING, Recorder, Recording
        from planctl.cli.overwriting import require_own

        secrets = Secrets(os.environ, [value for servers in known.values() for value in servers.secrets])
        if self.replay is not None:
            recording = Recording(folder / self.replay, self.replay, secrets)
            return staged._replace(
                planner_model=staged.planner_model and recording.model('planner'),
                executor_model=staged.executor_model and recording.model('executor'),
                rehearsal=recording,
            )
        assert self.record is not None
        require_own(str(folder / self.record), BEGINNING, option='--record')
        recorder = Recorder(folder / self.record, self.record, secrets)
        return staged._replace(
            planner_model=staged.planner_model and recorder.model(staged.planner_model, 'planner'),
            executor_model=staged.executor_model and recorder.model(staged.executor_model, 'executor'),
            rehearsal=recorder,
        )

    def _served(self, loaded: LoadedAgent, folder: Path, known: dict[Path, Servers]) -> LoadedAgent:
        beside = None if loaded.path is None else loaded.path.parent / MCP_FILE
        path = folder / self.mcp if self.mcp is not None else beside
        if path is None or (self.mcp is None and not path.is_file()):
            return loaded
        if path.resolve() not in known:
            from planctl.agent.mcp import load_servers

            known[path.resolve()] = load_servers(path, self.mcp or shown_path(path, folder))
        return replace(loaded, servers=known[path.resolve()])


def cast_of(
    folder: Path,
    wanted: Wanted,
    agent: str | None,
    planner: str | None,
    executor: str | None,
    model: str | None,
    planner_model: str | None,
    stage: Stage,
) -> Cast:
    """Load the agents and models. What is said of one role beats what is said of both, a model on the line a file."""
    if stage.replay is not None:
        # Whatever a file names would want a key, and is not asked.
        model = planner_model = OFFLINE
    plans, carries_out = wanted.plans, not wanted.plan_only
    option = '--agent' if executor is None else '--executor'
    doing = planning = None
    if carries_out or planner is None:
        doing = load_agent(executor or agent, model=model, folder=folder, option=option)
    if plans and planner is not None:
        replayed = None if stage.replay is None else OFFLINE
        planning = load_agent(planner, model=replayed, folder=folder, option='--planner')
        # A file for the planner alone says more of its model than --model, which is for both.
        planner_model = planner_model or (model if planning.model is None else None)
    elif plans and executor is not None:
        planning = load_agent(agent, model=model, folder=folder)
    doing = doing or planning
    assert doing is not None
    planning = planning or doing
    for loaded in (planning, doing):
        require_folders(loaded)
    asked_first = planning.model_for(planner_model, option='--planner-model') if plans else None
    asked_then = doing.model_for(None, option='--model') if carries_out else None
    return stage.set(Cast(planning, doing, asked_first, asked_then), folder)


def store_of(
    settings: Settings, cast: Cast, *, create: bool
) -> tuple[AbstractAsyncContextManager[BaseStore], str, str]:
    """Return what opens the store, its session and where it is: as the line says, else an agent's own, else nearest."""
    for loaded in (cast.executor, cast.planner) if settings.db is None else ():
        own = own_planning(loaded)
        if own is None or own.store is None:
            continue
        if isinstance(own.store, SqlitePlanStore):
            path, table = own.store.path, own.store.table
            session = own.store.session if settings.session is None else settings.session
            store = SqlitePlanStore(path, session=session, table=table)
            return nullcontext(store), session, f'{loaded.label} · {path} · session {session}'
        if settings.session is not None:
            raise InputError(f'--session cannot be given: {loaded.label} has a store of its own')
        session = str(getattr(own.store, 'session', ''))
        return nullcontext(inner(own.store)), session, f'{loaded.label} · {type(own.store).__name__} of it'
    # Another database does not make it another session: each of the two is said for itself.
    own_session = None if settings.session is not None else _own_session(cast)
    session = check_session(settings.session_name if own_session is None else own_session)
    place = locate(settings.db, create=create)
    is_new = '' if place.exists else ' (new)'
    labels = dict.fromkeys(loaded.label for loaded in (cast.planner, cast.executor))
    where = f'{" · ".join(labels)} · {place.shown}{is_new} · session {session}'
    if place.url is not None:
        from planctl.stores.opening import open_store

        return open_store(place, session), session, where
    store = SqlitePlanStore(place.path, session=session, table=place.table, journal=place.journal)
    return nullcontext(store), session, where


def _own_session(cast: Cast) -> str | None:
    """Return the session that an agent itself names, the executor's first."""
    for loaded in (cast.executor, cast.planner):
        own = own_planning(loaded)
        if own is not None and isinstance(own.store, SqlitePlanStore):
            return own.store.session
    return None
