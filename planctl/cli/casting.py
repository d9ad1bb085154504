"""Who plans, who carries out and on which store, from the options of `planctl run`. Nothing is run or opened here."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from planctl.agent.job import Wanted
from planctl.agent.roles import own_planning
from planctl.agent.spec import LoadedAgent, load_agent
from planctl.cli.settings import Settings
from planctl.errors import InputError
from planctl.locate import locate
from planctl.plan import check_session
from planctl.stores.adapter import inner
from planctl.stores.base import BaseStore
from planctl.stores.sqlite import SqlitePlanStore

if TYPE_CHECKING:
    from pydantic_ai.models import Model


class Cast(NamedTuple):
    """Who plans and who carries out; a model is `None` where its phase is not wanted."""

    planner: LoadedAgent
    executor: LoadedAgent
    planner_model: Model | None
    executor_model: Model | None


def cast_of(
    folder: Path,
    wanted: Wanted,
    agent: str | None,
    planner: str | None,
    executor: str | None,
    model: str | None,
    planner_model: str | None,
) -> Cast:
    """Load the agents and models. What is said of one role beats what is said of both, a model on the line a file."""
    plans, carries_out = wanted.plans, not wanted.plan_only
    option = '--agent' if executor is None else '--executor'
    doing = planning = None
    if carries_out or planner is None:
        doing = load_agent(executor or agent, model=model, folder=folder, option=option)
    if plans and planner is not None:
        planning = load_agent(planner, model=None, folder=folder, option='--planner')
        # A file for the planner alone says more of its model than --model, which is for both.
        planner_model = planner_model or (model if planning.model is None else None)
    elif plans and executor is not None:
        planning = load_agent(agent, model=model, folder=folder)
    doing = doing or planning
    assert doing is not None
    planning = planning or doing
    return Cast(
        planning,
        doing,
        planning.model_for(planner_model, option='--planner-model') if plans else None,
        doing.model_for(None, option='--model') if carries_out else None,
    )


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
    session = check_session(settings.session_name)
    place = locate(settings.db, create=create)
    is_new = '' if place.exists else ' (new)'
    labels = dict.fromkeys(loaded.label for loaded in (cast.planner, cast.executor))
    where = f'{" · ".join(labels)} · {place.shown}{is_new} · session {session}'
    if place.url is not None:
        from planctl.stores.opening import open_store

        return open_store(place, session), session, where
    store = SqlitePlanStore(place.path, session=session, table=place.table, journal=place.journal)
    return nullcontext(store), session, where
