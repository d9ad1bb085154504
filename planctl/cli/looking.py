"""`planctl run --print-spec` and `--dry-run`: what a run would be, on stdout. Asks no model and writes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planctl.cli.output import emit, emit_json
from planctl.cli.settings import Settings
from planctl.sanitize import shown

if TYPE_CHECKING:
    from planctl.agent.job import End, Wanted
    from planctl.agent.offers import Offer
    from planctl.cli.casting import Cast


def look(settings: Settings, wanted: Wanted, cast: Cast, *, dry_run: bool) -> int:
    """Show what would run; with `dry_run` also what it would do. Raises what a run would be refused with."""
    import asyncio
    import os
    from contextlib import AsyncExitStack

    from planctl.agent.job import Job
    from planctl.agent.offers import offers, would
    from planctl.agent.outcome import STATUS, counts
    from planctl.cli.advice import aimed
    from planctl.cli.asides import asides
    from planctl.cli.casting import store_of

    os.environ.setdefault('PYDANTIC_AI_NO_BANNER', '1')
    opening, session, where = store_of(settings, cast, create=True)

    async def go() -> tuple[list[Offer], End | str, dict[str, int], str]:
        async with AsyncExitStack() as held:
            store = await held.enter_async_context(opening)
            await held.enter_async_context(store)
            job = Job(store, cast.executor, wanted, lambda _: None, cast.planner)
            plan = await store.read()
            does = await would(job, cast.planner_model, cast.executor_model) if dry_run else ''
            for servers in cast.servers:
                await held.enter_async_context(servers.running(hear))
            return await offers(job, cast.planner_model, cast.executor_model), does, counts(plan), plan.objective

    with asides(settings) as hear:
        found, does, counted, objective = asyncio.run(go())
    status, words = (0, does) if isinstance(does, str) else (STATUS[does.reason], f'ask nothing: {does.message}')
    words = aimed(words, settings)
    servers = [name for each in cast.servers for name in each.names]
    if settings.json:
        document: dict[str, Any] = {
            'schema': 1,
            'kind': 'spec',
            'session': session,
            'where': where,
            'objective': wanted.objective or objective,
            'counts': counted,
            'servers': servers,
            'roles': [offer.document() for offer in found],
        }
        emit_json(document | ({'would': words} if dry_run else {}))
        return status
    lines = [f'where     {shown(where)}']
    if servers:
        lines.append(f'servers   {shown(", ".join(servers))}')
    for offer in found:
        lines.append(f'{offer.role:<9} {shown(offer.agent)} with {shown(offer.model)}')
        for name, tools in (
            ('plan', offer.plan_tools),
            ('tools', offer.tools),
            ('native', offer.native),
            ('left out', offer.left_out),
        ):
            if tools:
                lines.append(f'  {name:<9} {shown(", ".join(tools))}')
    if dry_run:
        lines.append(f'would     {shown(words)}')
    emit('\n'.join(lines) + '\n')
    return status
