"""An agent with a plan of its own, from Python: where the plan is kept, and what can be heard of it.

Run it with `python examples/watch_an_agent.py [DATABASE]`. The offline model stands in for a real one, so that neither
key nor network is needed; with `Agent('anthropic:claude-sonnet-5-5', …)` nothing else changes.
"""

from __future__ import annotations

import sys

from pydantic_ai import Agent, RunContext

from planctl import PlanCompletedEvent, PlanCreatedEvent, Planning, SqlitePlanStore
from planctl.agent.offline import offline_model

CHECKLIST = """\
- Read the report
- Answer the questions in it
  - The one about costs
  - The one about time
- Send the answer (depends on: 2)
"""


def main(database: str) -> None:
    store = SqlitePlanStore(database, session='watched')
    agent = Agent(offline_model(), capabilities=[Planning(store=store, enable_subtasks=True)])

    @agent.on_event(PlanCreatedEvent)
    async def planned(ctx: RunContext[None], event: PlanCreatedEvent) -> None:
        print('planned:', event.item.content)

    @agent.on_event(PlanCompletedEvent)
    async def done(ctx: RunContext[None], event: PlanCompletedEvent) -> None:
        print('done:', event.item.content)

    print(agent.run_sync(CHECKLIST).output)


if __name__ == '__main__':
    main(sys.argv[1] if len(sys.argv) > 1 else 'plan.db')
