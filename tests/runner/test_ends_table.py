"""Every way in which an executor can behave, with the status and the reason that it ends on, and the plan after it."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import RequestUsage
from runner_helpers import Scripted, moving, running, statuses, stored, three_steps

from planctl.agent.job import Stop
from planctl.agent.limits import Limits
from planctl.agent.outcome import STATUS, StopReason
from planctl.cli.failure import status_of
from planctl.core import apply
from planctl.operations import Add, Describe, SetStatus
from planctl.plan import TaskStatus

READ = [('read_plan', {})]
ALL = ('1', '2', '3')


def raising(*_: Any) -> Any:
    raise OSError('the disk\nis gone')


def exiting(*_: Any) -> Any:
    sys.exit(3)


async def hanging(*_: Any) -> Any:
    await asyncio.sleep(600)


class Costly(Scripted):
    """Each of its answers costs a dollar and 1,000 tokens."""

    def __init__(self, *turns: Any) -> None:
        super().__init__(*turns)
        self.model = FunctionModel(self._costly, model_name='offline')

    async def _costly(self, messages: Any, info: Any) -> ModelResponse:
        answer = await self._respond(messages, info)
        answer.usage = RequestUsage(input_tokens=900, output_tokens=100)
        answer.usage.cost = Decimal(1)
        return answer


@dataclass
class Case:
    turns: list[Any]
    reason: StopReason
    status: int
    words: str
    after: str
    """The first letter of the status of each step."""
    wanted: dict[str, Any] = field(default_factory=dict[str, Any])
    goes_on: StopReason = StopReason.finished
    """How a run of a good executor ends that comes after."""


START = moving('in_progress', '1')
CASES = {
    'finishes': Case([moving('completed', *ALL), 'done'], StopReason.finished, 0, '3 of 3 steps completed', 'ccc'),
    'stops early': Case([moving('completed', '1'), 'enough'], StopReason.stopped_early, 6, 'stopped early', 'cpp'),
    'stalls': Case([START, *[moving('in_progress', '1')] * 9], StopReason.stalled, 6, '--max-idle', 'ppp'),
    'loops on a read': Case([READ], StopReason.stalled, 6, '5 requests (--max-idle)', 'ppp'),
    'waits': Case(
        [moving('blocked', *ALL, note='no key'), 'cannot'], StopReason.waiting, 6, 'planctl reopen 1 2 3', 'bbb',
        goes_on=StopReason.waiting,
    ),
    'cancels everything': Case(
        [moving('cancelled', *ALL), 'no need'], StopReason.abandoned, 6, 'abandoned', 'xxx',
        goes_on=StopReason.abandoned,
    ),
    'raises': Case([START, raising], StopReason.error, 7, 'OSError: the disk is gone', 'ppp'),
    'ends the process': Case([START, exiting], StopReason.error, 7, 'it ended the process: sys.exit(3)', 'ppp'),
    'lies': Case(['All three steps are completed.'], StopReason.stopped_early, 6, '3 steps are open', 'ppp'),
    'too many requests': Case(
        [READ], StopReason.limit, 6, '2 requests was reached (--max-requests)', 'ppp',
        {'limits': Limits(max_requests=2)},
    ),
    'too many tokens': Case(
        [READ], StopReason.limit, 6, '2,500 tokens was reached (--max-tokens)', 'ppp',
        {'limits': Limits(max_tokens=2_500)},
    ),
    'too dear': Case(
        [READ], StopReason.limit, 6, '$1.50 was reached (--max-cost)', 'ppp',
        {'limits': Limits(max_cost=Decimal('1.5'))},
    ),
    'too long': Case(
        [START, hanging], StopReason.limit, 6, '0.2 s was reached (--timeout)', 'ppp', {'limits': Limits(timeout=0.2)}
    ),
    'is interrupted': Case([START, hanging], StopReason.interrupted, 130, '`planctl run` goes on', 'ppp'),
    'is terminated': Case([START, hanging], StopReason.terminated, 143, '`planctl run` goes on', 'ppp'),
}  # fmt: skip


@pytest.mark.parametrize('name', CASES)
async def test_it_ends_as_the_plan_says_and_the_plan_can_be_used(name: str) -> None:
    case = CASES[name]
    store, stop = await three_steps(), Stop()
    if case.reason in (StopReason.interrupted, StopReason.terminated):
        asyncio.get_running_loop().call_later(0.1, stop.request, case.reason)
    script = Costly(*case.turns)
    result = await running(store, script, stop=stop, max_idle=5, **case.wanted)
    assert result.stop_reason is case.reason
    assert (STATUS[case.reason] if result.error is None else status_of(result.error)) == case.status
    assert case.words in result.message
    assert ''.join('x' if s == 'cancelled' else s[0] for s in statuses(result.plan).values()) == case.after
    document = result.document()
    assert document['stop_reason'] == case.reason.value
    assert (document['limit'] is not None) == (case.reason is StopReason.limit)
    listed = [step['id'] for part in ('completed', 'cancelled', 'open') for step in document[part]]
    assert sorted(listed) == ['1', '2', '3']
    assert result.plan.owner is None
    again = await running(store, Scripted(moving('completed', *ALL), 'done'), max_nudges=0)
    assert again.stop_reason is case.goes_on


async def test_the_final_document_gives_a_reason_for_everything_that_is_open() -> None:
    store = await stored(Add('a'), Add('b', depends_on=('1',)), Add('c'), Add('d'), Add('e'))
    script = Scripted(
        [
            *moving('blocked', '1', note='no key'),
            *moving('cancelled', '3', note='not needed'),
            ('remove_task', {'task_id': '4'}),
            *moving('completed', '5', note='checked'),
        ],
        'that is all',
    )
    document = (await running(store, script)).document()
    assert document['open'] == [
        {'id': '1', 'content': 'a', 'status': 'blocked', 'note': 'no key', 'waits_for': []},
        {'id': '2', 'content': 'b', 'status': 'blocked', 'note': '', 'waits_for': ['1']},
    ]
    assert [(step['id'], step['note']) for step in document['cancelled']] == [('3', 'not needed')]
    assert [(step['id'], step['note']) for step in document['completed']] == [('5', 'checked')]
    assert [step['content'] for step in document['removed']] == ['d']
    assert document['counts']['open'] == 2


async def test_a_brief_that_grows_with_every_planning_is_bounded_in_what_is_asked() -> None:
    store = await stored(Add('a'), Describe(objective='O' * 50_000, brief='B' * 50_000))
    await apply(store, SetStatus('1', TaskStatus.completed), Add('b'))
    script = Scripted(moving('completed', '2'), 'done')
    await running(store, script, steps_per_context=1)
    assert len(script.said()) < 30_000
    assert script.said().count('more characters]') == 2
