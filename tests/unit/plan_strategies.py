"""What Hypothesis makes of plans: the fields of a step, and any operation on them."""

from __future__ import annotations

from hypothesis import strategies as st

from planctl import operations as ops
from planctl.plan import TaskStatus

IDS = st.sampled_from(['1', '2', '3', '4', '5', 'a', 'b'])
TEXTS = st.sampled_from(['do', 'test', 'ship', 'a\tb', '\x00', '日本'])
STATUSES = st.sampled_from([*TaskStatus])
OWNERS = st.sampled_from(['me', 'you'])
SECONDS = st.sampled_from([0.0, 5.0, 60.0])
SCOPES = st.sampled_from(['step', 'session'])


def waits(ids: st.SearchStrategy[str] = IDS) -> st.SearchStrategy[tuple[str, ...]]:
    """Return what a step may wait for; an id may come twice."""
    return st.lists(ids, max_size=3).map(tuple)


def operations(
    *,
    ids: st.SearchStrategy[str] = IDS,
    texts: st.SearchStrategy[str] = TEXTS,
    statuses: st.SearchStrategy[TaskStatus] = STATUSES,
    owners: st.SearchStrategy[str] = OWNERS,
) -> st.SearchStrategy[ops.Operation]:
    """Return any operation on steps that have these."""
    an_id, a_text = st.none() | ids, st.none() | texts
    drafts = st.builds(
        ops.Draft,
        content=texts,
        id=an_id,
        status=st.none() | statuses,
        active_form=a_text,
        parent_id=st.just('') | an_id,
        depends_on=st.none() | waits(ids),
    )
    return st.one_of(
        st.builds(
            ops.Add,
            content=texts,
            id=an_id,
            status=st.just(TaskStatus.pending) | statuses,
            parent_id=an_id,
            depends_on=waits(ids),
            before=an_id,
            note=st.just('') | texts,
        ),
        st.builds(ops.Add, content=texts),
        st.builds(ops.SetStatus, id=ids, status=statuses, cascade=st.booleans(), note=a_text),
        st.builds(ops.Edit, id=ids, content=a_text, active_form=a_text),
        st.builds(ops.Depend, id=ids, on=ids),
        st.builds(ops.Undepend, id=ids, on=ids),
        st.builds(ops.Remove, id=ids, cascade=st.booleans()),
        st.builds(ops.Move, id=ids, under=an_id, top=st.booleans(), before=an_id),
        st.builds(ops.Move, id=ids, after=ids),
        st.builds(ops.Claim, owner=owners, seconds=SECONDS, id=an_id, scope=SCOPES),
        st.builds(ops.Renew, owner=owners, seconds=SECONDS, id=ids, scope=SCOPES),
        st.builds(ops.Release, owner=owners, id=an_id, scope=SCOPES, note=texts),
        st.builds(ops.Note, id=ids, note=texts),
        st.builds(ops.Describe, objective=a_text, brief=a_text),
        st.builds(
            ops.Replace,
            items=st.lists(drafts, max_size=5).map(tuple),
            base=st.none() | st.lists(st.tuples(ids, st.just('')), max_size=4).map(tuple),
            plain=st.booleans(),
        ),
    )
