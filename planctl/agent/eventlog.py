"""The events of a run as JSON objects, for `planctl run --events`: what each line holds, and nothing of where it goes.

Every object has `schema` (1), `event`, `at` (seconds since the epoch), `run` (eight hexadecimal digits; the plan's log
has `planner:RUN` and `executor:RUN` as actors) and `session`. What one of several executors does or says has its number
as `worker` (its actor is `executor:RUN.WORKER`). What else an object has depends on `event`:

phase        a phase begins: `name` (`plan` or `execute`), `model`, `revision`, `counts`
request      the model is asked: `number` in the phase, and used so far in the phase `input_tokens`, `output_tokens`,
             `cost` (US dollars, null when no price is known)
answer       the model has answered: as `request`, with the answer counted in
retry        a request failed and is made again: `attempt`, `of`, `seconds` until then, `why`
tool_call    the model calls a tool: `id`, `name`, `arguments` (JSON as text, cut at 200 characters), `is_plan`
tool_result  it answered, once for each call: `id`, `name`, `is_plan`, `outcome` (`success`, `failed`, `denied`,
             `retried` for a call that made no sense, `interrupted` for one whose answer nobody waited for)
approval     a tool that needs approval: `name`, `arguments`, `allowed`, `asked` (whether there was somebody to ask)
context      the executor starts anew: `number` of its contexts, `why`
plan         the plan changed: `by` (`run`, or `other` for everybody else), `revision`, `counts`, `changes`: for each
             step `change` (`created`, `updated`, `moved`, `deleted`), `from` (its status before, null for a new one),
             `step` (`id`, `content`, `status`, `note`, `parent_id`, `depends_on`). While planning it is the draft.
say          something for people: `text`
result       the end: every field of the final document of `planctl run --json`; the last line, once a run has begun

New fields and events may come; what is here stays as it is under `schema` 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from planctl.agent.outcome import Result, counts, number
from planctl.agent.watch import (
    AT_WORK,
    Answered,
    Decided,
    PhaseStarted,
    PlanChanged,
    PlanSeen,
    Requested,
    Retried,
    RunEvent,
    Said,
    StartedAnew,
    ToolCalled,
    ToolReturned,
)
from planctl.change import Change, StepChange, difference
from planctl.plan import Plan


class EventLog:
    """Turns events into objects and hands them on, in order."""

    def __init__(self, run: str, session: str, write: Callable[[dict[str, Any]], None], clock: Callable[[], float]):
        self._head = {'run': run, 'session': session}
        self._write = write
        self._clock = clock
        self._plan = Plan()

    def __call__(self, event: RunEvent) -> None:
        """Take one event."""
        match event:
            case Said(text):
                self._put('say', text=text)
            case PhaseStarted(name, model, plan):
                self._plan = plan
                self._put('phase', name=name, model=model, revision=plan.revision, counts=counts(plan))
            case Requested():
                kind = 'answer' if isinstance(event, Answered) else 'request'
                tokens = {'input_tokens': event.input_tokens, 'output_tokens': event.output_tokens}
                self._put(kind, number=event.number, **tokens, cost=number(event.cost))
            case Retried(attempt, of, seconds, why):
                self._put('retry', attempt=attempt, of=of, seconds=round(seconds, 3), why=why)
            case ToolCalled(name, arguments, call, is_plan):
                self._put('tool_call', id=call, name=name, arguments=arguments, is_plan=is_plan)
            case ToolReturned(name, call, outcome, is_plan):
                self._put('tool_result', id=call, name=name, outcome=outcome, is_plan=is_plan)
            case Decided(name, arguments, allowed, asked):
                self._put('approval', name=name, arguments=arguments, allowed=allowed, asked=asked)
            case StartedAnew(count, why):
                self._put('context', number=count, why=why)
            case PlanChanged(change):
                self._changed('run', change)
            case PlanSeen(plan):
                self._changed('other', Change(self._plan, plan, difference(self._plan.steps, plan.steps)))

    def finish(self, result: Result) -> None:
        """Take the end of the run."""
        self._put('result', **{name: value for name, value in result.document().items() if name not in _ENVELOPE})

    def _changed(self, by: str, change: Change) -> None:
        self._plan = change.after
        changes = [_change(entry) for entry in change.steps]
        self._put('plan', by=by, revision=change.after.revision, counts=counts(change.after), changes=changes)

    def _put(self, event: str, **fields: Any) -> None:
        head = {'schema': 1, 'event': event, 'at': round(self._clock(), 3), **self._head}
        worker = AT_WORK.get()
        # That somebody else did something may be found out by a worker, and is not its doing.
        if worker is not None and fields.get('by') != 'other':
            head['worker'] = worker
        self._write(head | fields)


_ENVELOPE = ('schema', 'kind', 'session')


def _change(entry: StepChange) -> dict[str, Any]:
    kind = 'created' if entry.before is None else 'deleted' if entry.after is None else 'updated'
    if entry.before == entry.after:
        kind = 'moved'
    step = entry.step
    return {
        'change': kind,
        'from': None if entry.before is None else entry.before.status.value,
        'step': {
            'id': step.id,
            'content': step.content,
            'status': step.status.value,
            'note': step.note,
            'parent_id': step.parent_id,
            'depends_on': list(step.depends_on),
        },
    }
