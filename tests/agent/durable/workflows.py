"""A workflow on DBOS in real processes that die at every one of its moments and are started again.

Prints one JSON line for each moment: what came of it. The packages are imported once, and each process is a fork.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

from dbos import DBOS, SetWorkflowID
from pydantic_ai import Agent
from pydantic_ai.durable_exec.dbos import DBOSDurability
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from planctl import InMemoryPlanStore, Planning, SqlitePlanStore

DIED = 9
AT_ONCE = 8


def call(tool: str, **arguments: Any) -> ToolCallPart:
    return ToolCallPart(tool, arguments)


TURNS = [
    [call('write_plan', items=[{'content': 'a'}, {'content': 'b', 'depends_on': ['1']}])],
    [
        call('add_task', content='c'),
        call('update_task_status', task_id='1', status='completed'),
        call('update_task_status', task_id='99', status='completed'),
        call('add_task', content='d'),
    ],
    [call('add_subtask', parent_id='2', content='e'), call('read_plan')],
]


class Moments:
    """Counts what the workflow does, and ends the process before or after one of its steps."""

    def __init__(self, die: tuple[int, str] | None = None) -> None:
        self.die = die
        self.done: list[str] = []

    def begin(self, what: str) -> None:
        self._pass('before')
        self.done.append(what)

    def end(self) -> None:
        self._pass('after')

    def _pass(self, side: str) -> None:
        at = len(self.done) if side == 'before' else len(self.done) - 1
        if self.die == (at, side):
            os._exit(DIED)


def watched(kind: Callable[..., Any], moments: Moments, *arguments: Any) -> Any:
    """Return a store that passes every call by `moments`."""

    class Watched(kind):  # type: ignore[misc, valid-type]
        async def read(self) -> Any:
            moments.begin('read')
            try:
                return await super().read()
            finally:
                moments.end()

        async def update(self, *args: Any, **options: Any) -> Any:
            if options['label'] == 'recover':  # Repeats what is recorded: no step of the engine.
                return await super().update(*args, **options)
            moments.begin('update')
            try:
                return await super().update(*args, **options)
            finally:
                moments.end()

    return Watched(*arguments)


def run(folder: str, moments: Moments, *, persistent: bool, fork_at: int | None = None) -> dict[str, Any]:
    """Run the workflow, or go on with it, and return what it said and what it left."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        moments.begin('model')
        at = sum(isinstance(message, ModelResponse) for message in messages)
        response = ModelResponse(parts=[*TURNS[at]] if at < len(TURNS) else [TextPart('done')])
        moments.end()
        return response

    store = watched(SqlitePlanStore, moments, f'{folder}/plan.db') if persistent else None
    if store is None:
        # The default: a plan in the memory of each run. Watched too, so that there are the same moments.
        import planctl.agent.capability as module

        module.InMemoryPlanStore = lambda: watched(InMemoryPlanStore, moments)  # type: ignore[assignment, misc]
    planning = Planning[Any](store=store, enable_subtasks=True)
    agent = Agent(FunctionModel(answer), name='planner', capabilities=[planning, DBOSDurability()])

    @DBOS.workflow(name='work')
    async def work() -> list[Any]:
        result = await agent.run('go')
        return [
            [part.outcome, part.content]
            for message in result.all_messages()
            for part in message.parts
            if isinstance(part, ToolReturnPart)
        ]

    DBOS(
        config={
            'name': 'planctl-test',
            'system_database_url': f'sqlite:///{folder}/dbos.db',
            'run_admin_server': False,
            'log_level': 'CRITICAL',
        }
    )
    DBOS.launch()

    async def follow() -> dict[str, Any]:
        if fork_at is not None:
            handle = await DBOS.fork_workflow_async('one', fork_at)
            told = await handle.get_result(polling_interval_sec=0.02)
        else:
            with SetWorkflowID('one'):
                told = await (await DBOS.start_workflow_async(work)).get_result(polling_interval_sec=0.02)
        steps = await DBOS.list_workflow_steps_async('one')
        plan = await SqlitePlanStore(f'{folder}/plan.db').read()
        return {
            'told': told,
            'steps': [step['function_name'] for step in steps],
            'largest': max(len(str(step['output'])) for step in steps),
            'plan': [[step.id, step.content, step.status.value, step.parent_id] for step in plan.steps],
            'done': moments.done,
        }

    # The process ends here, without the second that an orderly end takes.
    return asyncio.run(follow())


class Process:
    """A process of its own that does some work."""

    def __init__(self, work: Callable[[], dict[str, Any]]) -> None:
        self._reading, writing = os.pipe()
        self._child = os.fork()
        if self._child == 0:
            status = 1
            try:
                with os.fdopen(writing, 'w') as pipe:
                    json.dump(work(), pipe)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        os.close(writing)

    def outcome(self) -> dict[str, Any] | None:
        """Return what the work returned, or `None` when the process died of its `Moments`."""
        with os.fdopen(self._reading) as pipe:
            text = pipe.read()
        status = os.waitstatus_to_exitcode(os.waitpid(self._child, 0)[1])
        if status not in (0, DIED):
            raise SystemExit(f'a workflow ended with {status}')
        return None if status == DIED else json.loads(text)


def main(folder: str, kind: str) -> None:
    """Print a line for the whole run, one for each moment at which it died, and one for a fork of the whole run."""

    def start(place: str, die: tuple[int, str] | None = None, fork_at: int | None = None) -> Process:
        os.makedirs(f'{folder}/{place}', exist_ok=True)
        persistent = kind == 'persistent'
        return Process(lambda: run(f'{folder}/{place}', Moments(die), persistent=persistent, fork_at=fork_at))

    def report(at: str, process: Process) -> dict[str, Any]:
        outcome = process.outcome()
        assert outcome is not None
        sys.stdout.write(json.dumps({'at': at, **outcome}) + '\n')
        sys.stdout.flush()
        return outcome

    whole = report('whole', start('whole'))
    # After a change is the moment that matters most: it is stored, and the engine has no record of it.
    moments = [
        (number, side)
        for number, what in enumerate(whole['done'])
        for side in ('before', 'after')
        if (what, side) == ('update', 'after') or (kind == 'persistent' and (what == 'update' or side == 'after'))
    ]
    for at in range(0, len(moments), AT_ONCE):
        batch = {
            f'{number} {side} {whole["done"][number]}': (number, side) for number, side in moments[at : at + AT_ONCE]
        }
        dying = {place: start(place, die=moment) for place, moment in batch.items()}
        for place, process in dying.items():
            assert process.outcome() is None, f'it did not die: {place}'
        # Most of a recovery is waiting for the engine to look for work.
        for place, process in {place: start(place) for place in batch}.items():
            report(place, process)
    report('fork', start('whole', fork_at=len(whole['steps'])))


if __name__ == '__main__':
    main(sys.argv[1], sys.argv[2])
