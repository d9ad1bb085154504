"""What holds after any sequence of operations, on plans of our own and on whatever other programs may have stored."""

from __future__ import annotations

from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from plan_strategies import IDS, OWNERS, SECONDS, STATUSES, TEXTS, operations, waits
from pydantic import TypeAdapter

from planctl.change import Change, difference
from planctl.errors import PlanctlError
from planctl.journal import LogRow, dump_reply, load_reply, log_rows, replay
from planctl.operations import Add, Draft, Operation, Replace, SetStatus
from planctl.plan import Plan, Step, TaskStatus
from planctl.readiness import available
from planctl.rules import apply, settle

Transactions = list[tuple[list[Operation], str]]


def transactions(*, by_hand: bool = True) -> st.SearchStrategy[Transactions]:
    """Return some transactions; without `by_hand` none that blocks a step on nothing."""
    given_status = STATUSES if by_hand else STATUSES.filter(lambda status: status is not TaskStatus.blocked)
    one = st.tuples(st.lists(operations(statuses=given_status), min_size=1, max_size=3), OWNERS)
    return st.lists(one, min_size=1, max_size=12)


@st.composite
def own_plans(draw: st.DrawFn) -> Plan:
    """Return a plan that the rules made: steps added one by one, some of them then moved on."""
    plan = Plan()
    for step_id in draw(st.permutations(['1', '2', '3', '4', '5', 'a', 'b'])):
        known = st.sampled_from([step.id for step in plan.steps]) if plan.steps else st.nothing()
        depends_on = draw(st.lists(known, max_size=2)) if plan.steps else []
        parent_id = draw(st.none() | known)
        added = Add(draw(TEXTS), id=step_id, parent_id=parent_id, depends_on=tuple(depends_on))
        change = run(([added], 'me'), plan)
        plan = plan if change is None else change.after
    for step_id, status in draw(st.lists(st.tuples(IDS, STATUSES), max_size=5)):
        if status is not TaskStatus.blocked:
            change = run(([SetStatus(step_id, status)], 'me'), plan)
            plan = plan if change is None else change.after
    return plan


@st.composite
def foreign_plans(draw: st.DrawFn) -> Plan:
    """Return a plan that anybody may have stored: loops, references to nothing, statuses that contradict each other."""
    chosen = draw(st.lists(IDS, unique=True, min_size=1, max_size=6))
    steps: list[Step] = []
    for step_id in chosen:
        status = draw(STATUSES)
        working = status is TaskStatus.in_progress and draw(st.booleans())
        step = Step(
            step_id,
            draw(st.sampled_from(['do', 'test', 'dirty\n\x1b text', ''])) or 'x',
            status,
            parent_id=draw(st.none() | IDS),
            depends_on=tuple(dict.fromkeys(draw(waits()))),
            owner='you' if working else None,
            lease=draw(st.none() | SECONDS) if working else None,
            note=draw(st.sampled_from(['', 'why'])),
        )
        steps.append(step)
    return Plan(steps=tuple(steps), next_id=1, revision=3)


def run(transaction: tuple[list[Operation], str], plan: Plan, now: float = 1.0) -> Change | None:
    """Apply a transaction, or return `None` when it is refused; then nothing may have changed."""
    given_operations, actor = transaction
    before = replace(plan)
    refused: PlanctlError | None = None
    change: Change | None = None
    try:
        change = apply(plan, given_operations, actor=actor, now=now)
    except PlanctlError as error:
        refused = error
    assert plan == before
    if refused is not None:
        assert refused.code not in ('error', 'refused')
        assert refused.message
    return change


def run_all(given_transactions: Transactions, plan: Plan) -> list[Change]:
    changes: list[Change] = []
    current = plan
    for at, transaction in enumerate(given_transactions):
        change = run(transaction, current, now=float(at))
        if change is not None:
            changes.append(change)
            current = change.after
    return changes


# --- Plans of our own -------------------------------------------------------------------------------------------


def waiting_order(plan: Plan) -> TopologicalSorter[tuple[str, str]]:
    """Return what has to start and end after what: the meaning of a plan that can be finished."""
    sorter: TopologicalSorter[tuple[str, str]] = TopologicalSorter()
    for step in plan.steps:
        sorter.add((step.id, 'end'), (step.id, 'start'))
        for on in step.depends_on:
            sorter.add((step.id, 'start'), (on, 'end'))
        if step.parent_id is not None:
            sorter.add((step.id, 'start'), (step.parent_id, 'start'))
            sorter.add((step.parent_id, 'end'), (step.id, 'end'))
    return sorter


def assert_sound(plan: Plan) -> None:
    index = plan.index
    assert len(index) == len(plan.steps)
    for step in plan.steps:
        assert {*step.depends_on, *([step.parent_id] if step.parent_id else [])} <= index.keys()
        assert len(set(step.depends_on)) == len(step.depends_on)
        waits = any(not index[on].resolved for on in step.depends_on)
        if not step.resolved:
            # Blocked by what it waits for, or by somebody's word: on nothing, or with a reason.
            by_hand = step.status is TaskStatus.blocked and (not step.depends_on or step.note != '')
            assert waits == (step.status is TaskStatus.blocked) or by_hand
            assert step.parent_id is None or not index[step.parent_id].resolved
        if step.status is not TaskStatus.in_progress:
            assert (step.owner, step.lease, step.started_at) == (None, None, None)
        else:
            assert step.owner is not None
            assert step.started_at is not None
    try:
        waiting_order(plan).prepare()
    except CycleError as error:
        raise AssertionError(error.args[1]) from None
    assert settle(plan) is plan


@settings(max_examples=120, deadline=None)
@given(own_plans(), transactions())
def test_every_plan_that_the_rules_make_is_sound(start: Plan, given_transactions: Transactions) -> None:
    assert_sound(start)
    for change in run_all(given_transactions, start):
        assert_sound(change.after)


@settings(max_examples=80, deadline=None)
@given(own_plans(), transactions(by_hand=False))
def test_a_plan_with_open_steps_always_has_one_that_can_be_worked_on(
    start: Plan, given_transactions: Transactions
) -> None:
    for change in run_all(given_transactions, start):
        plan = change.after
        ready = available(plan, 'nobody', 1e9)
        assert (plan.progress.open == 0) == (not ready)
        for entry in ready:
            started = apply(plan, [SetStatus(entry.step.id, TaskStatus.in_progress)], actor='me', now=1e9).after
            assert started.step(entry.step.id).status is TaskStatus.in_progress
            if not entry.open_children:
                done = apply(plan, [SetStatus(entry.step.id, TaskStatus.completed)], actor='me', now=1e9).after
                assert done.step(entry.step.id).resolved


@settings(max_examples=80, deadline=None)
@given(own_plans(), transactions(by_hand=False))
def test_working_off_what_is_available_finishes_the_plan(start: Plan, given_transactions: Transactions) -> None:
    plan = [start, *(change.after for change in run_all(given_transactions, start))][-1]
    for _ in range(len(plan.steps)):
        ready = available(plan, 'me', 1e9)
        if not ready:
            break
        plan = apply(plan, [SetStatus(ready[0].step.id, TaskStatus.completed)], actor='me', now=1e9).after
    assert plan.progress.open == 0


@settings(max_examples=80, deadline=None)
@given(own_plans(), transactions())
def test_an_id_is_given_out_once(start: Plan, given_transactions: Transactions) -> None:
    plan = start
    seen = {step.id for step in plan.steps}
    for given_operations, actor in given_transactions:
        change = run((given_operations, actor), plan)
        if change is None:
            continue
        # Ids that nobody chose in this transaction.
        chosen = {one.id for one in given_operations if isinstance(one, Add)} | {
            item.id for one in given_operations if isinstance(one, Replace) for item in one.items
        }
        assert not {step.id for step in change.created if step.id not in chosen} & seen
        seen |= {step.id for step in change.after.steps}
        plan = change.after


@settings(max_examples=80, deadline=None)
@given(own_plans(), transactions())
def test_a_log_replayed_is_the_plan(start: Plan, given_transactions: Transactions) -> None:
    rows: list[LogRow] = []
    changes = run_all(given_transactions, start)
    for change in changes:
        rows.extend(log_rows(change, actor='me', operation='x', at=1.0))
    final, told = changes[-1].after if changes else start, replay(rows, start)
    assert told.steps == tuple(replace(step, lease=None) for step in final.steps)
    assert (told.revision, told.objective, told.brief) == (final.revision, final.objective, final.brief)


# --- Any plan ---------------------------------------------------------------------------------------------------


def patched(before: Plan, change: Change) -> tuple[Step, ...]:
    """Apply the entries of a change one by one, knowing nothing of how they were found."""
    steps = [
        s for s in before.steps if not any(c.step.id == s.id and (c.after is None or c.moved) for c in change.steps)
    ]
    for entry in change.steps:
        if entry.after is None:
            continue
        if entry.before is None or entry.moved:
            behind = [step.id for step in steps].index(entry.now_after) + 1 if entry.now_after is not None else 0
            steps.insert(behind, entry.after)
        else:
            at = [step.id for step in steps].index(entry.after.id)
            assert steps[at] == entry.before
            steps[at] = entry.after
    return tuple(steps)


@settings(max_examples=120, deadline=None)
@given(foreign_plans(), transactions())
def test_the_difference_is_exact(plan: Plan, given_transactions: Transactions) -> None:
    for change in run_all(given_transactions, plan):
        assert patched(change.before, change) == change.after.steps
        assert change.steps == difference(change.before.steps, change.after.steps)
        assert change.progress == change.after.progress
        reads_differently = replace(change.after, owner=None, lease=None, next_id=0, revision=0, steps=()) != replace(
            change.before, owner=None, lease=None, next_id=0, revision=0, steps=()
        )
        unleased = [[replace(step, lease=None) for step in side.steps] for side in (change.before, change.after)]
        assert change.changed == (reads_differently or unleased[0] != unleased[1])
        assert change.after.revision == change.before.revision + change.changed
        everything_else = {c.step.id for c in change.steps}
        for step in change.after.steps:
            if step.id not in everything_else:
                assert change.before.step(step.id) == step


@settings(max_examples=120, deadline=None)
@given(foreign_plans())
def test_settling_twice_is_settling_once_and_touches_only_references_and_blocked(plan: Plan) -> None:
    settled = settle(plan)
    assert settle(settled) is settled
    for before, after in zip(plan.steps, settled.steps, strict=True):
        kept = replace(after, depends_on=before.depends_on, parent_id=before.parent_id, status=before.status)
        assert kept == replace(before, owner=after.owner, lease=after.lease, started_at=after.started_at)
        assert set(after.depends_on) == set(before.depends_on) & plan.index.keys()
        assert before.resolved == after.resolved


@settings(max_examples=120, deadline=None)
@given(foreign_plans(), st.booleans())
def test_whatever_is_stored_can_be_restated(plan: Plan, with_base: bool) -> None:
    items = tuple(
        Draft(step.content, step.id, step.status, step.active_form, step.parent_id or '', step.depends_on)
        for step in plan.steps
    )
    base = tuple((step.id, step.fingerprint) for step in plan.steps) if with_base else None
    after = apply(plan, [Replace(items, base=base)], actor='me', now=1.0).after
    assert after.steps == settle(plan).steps


@settings(max_examples=120, deadline=None)
@given(
    foreign_plans(),
    st.lists(st.builds(SetStatus, id=IDS, status=STATUSES, cascade=st.booleans()), max_size=5),
    st.data(),
)
def test_statuses_given_together_come_in_any_order(plan: Plan, moves: list[SetStatus], data: st.DataObject) -> None:
    known = {move.id: move for move in moves if move.id in plan.index and not has_a_loop_of_parents(plan, move.id)}
    one, other = (
        run((list(order), 'me'), plan) for order in (known.values(), data.draw(st.permutations(list(known.values()))))
    )
    assert (one is None) == (other is None)
    if one is not None and other is not None:
        assert one.after == other.after
        assert one.remarks == other.remarks


def has_a_loop_of_parents(plan: Plan, step_id: str) -> bool:
    seen: set[str] = set()
    current: str | None = step_id
    while current is not None and current in plan.index:
        if current in seen:
            return True
        seen.add(current)
        current = plan.step(current).parent_id
    return False


# --- As data ----------------------------------------------------------------------------------------------------

OPERATION: TypeAdapter[Any] = TypeAdapter(Operation)
CHANGE = TypeAdapter(Change)


@settings(max_examples=120, deadline=None)
@given(operations())
def test_an_operation_comes_back_from_json_as_itself(operation: Operation) -> None:
    text = OPERATION.dump_json(operation)
    assert f'"kind":"{operation.kind}"'.encode() in text
    back = OPERATION.validate_json(text)
    assert back == operation
    assert type(back) is type(operation)


@settings(max_examples=80, deadline=None)
@given(own_plans(), transactions())
def test_a_change_comes_back_from_json_and_from_a_kept_reply_as_itself(
    start: Plan, given_transactions: Transactions
) -> None:
    for change in run_all(given_transactions, start):
        text = CHANGE.dump_json(change)
        assert b'_index' not in text
        assert CHANGE.validate_json(text) == change
        now = Plan('other', revision=9)
        kept = load_reply(dump_reply(change), now)
        assert kept == Change(now, now, change.steps, change.remarks, change.progress, replayed=True)
        assert not kept.changed
