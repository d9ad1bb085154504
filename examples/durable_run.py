"""A durable run: a workflow on DBOS whose agent keeps its plan through a crash. Each plan tool is one recorded step.

Run it with `python examples/durable_run.py FOLDER`. It dies in the middle of the work, as a machine does; run it a
second time, and it goes on where it was: nothing is planned twice, nothing is done twice. Listeners may hear an event
again. Needs `pip install 'planctl[dbos]'`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from dbos import DBOS, SetWorkflowID
from pydantic_ai import Agent
from pydantic_ai.durable_exec.dbos import DBOSDurability

from planctl import PlanCompletedEvent, Planning, SqlitePlanStore, read
from planctl.agent.offline import offline_model

CHECKLIST = '* Pack\n* Travel (depends on: 1)\n* Arrive (depends on: 2)'


async def main(folder: Path) -> None:
    store = SqlitePlanStore(folder / 'plan.db', session='journey')
    agent = Agent(
        offline_model(), name='traveller', capabilities=[Planning(store=store, enable_subtasks=True), DBOSDurability()]
    )
    crashed = folder / 'crashed'

    @DBOS.workflow(name='journey')
    async def journey() -> str:
        return str((await agent.run(CHECKLIST)).output)

    @agent.on_event(PlanCompletedEvent)
    async def done(ctx: object, event: PlanCompletedEvent) -> None:
        print('done:', event.item.content)
        if event.item.content == 'Pack' and not crashed.exists():
            crashed.touch()
            sys.stdout.flush()
            os._exit(9)

    DBOS(
        config={
            'name': 'journey',
            'system_database_url': f'sqlite:///{folder / "dbos.db"}',
            'run_admin_server': False,
            'log_level': 'ERROR',
        }
    )
    DBOS.launch()
    with SetWorkflowID('journey-1'):
        handle = await DBOS.start_workflow_async(journey)
    print(await handle.get_result())
    plan = await read(store)
    print(f'{plan.progress.completed} of {plan.progress.total} steps completed')
    DBOS.destroy()


if __name__ == '__main__':
    journeys = Path(sys.argv[1] if len(sys.argv) > 1 else 'journey')
    journeys.mkdir(parents=True, exist_ok=True)
    asyncio.run(main(journeys))
