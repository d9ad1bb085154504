"""Every word that the runner itself says to a model: who it is, what it is given, what is still open. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from planctl.agent.adoption import Mode
from planctl.plan import Plan, Step
from planctl.sanitize import shown, shown_block
from planctl.text import render_tree, step_line

PLANNER = (
    'You plan; you carry nothing out. Another agent carries out the plan, without this conversation: it gets the '
    'objective, your final answer and the plan, nothing else. Look up what you need with the reading tools that you '
    'have. Then write the plan with the plan tools: one step for each piece of work whose outcome can be checked, in '
    'the order of the work, with every name and path that it needs. Steps cannot be started or completed now. If '
    'nothing has to be done, write an empty plan. End with a brief for the executor: what you found out, constraints, '
    'decisions with their reasons, and how to check the result.'
)

EXECUTOR = (
    'You carry out the plan of this session, step by step. Set a step in progress before you work on it, and '
    'completed once you have checked its outcome. Set a step that cannot be done blocked, with the reason, and go on '
    'with another. Stop when there is no step left that you can work on.'
)

WORKER = (
    'You carry out one step of a plan, the one that you are given; others carry out other steps at the same time. Set '
    'it completed once you have checked its outcome, or blocked, with the reason, when it cannot be done. Leave every '
    'other step alone. Work that is missing in the plan can be added as new steps. Stop when the step is done.'
)

ADD_ONLY = 'There is a plan already. Only add steps to it; what is there stays as it is.'

ASSIGNED = 'Work on step {id}, and on no other:'

BRIEF_LIMIT = 12_000
"""Characters of objective and of brief that an executor is given with a plan; what is beyond is cut, and said so."""

_NUDGED_STEPS = 20


def planner_prompt(objective: str, plan: Plan, mode: Mode) -> list[str]:
    """Return the planner's first message: the objective, then what there is already.

    The objective is handed over whole: what is cut would never be planned. A planner that only adds sees the plan in
    its reminder.
    """
    parts = [shown_block(objective)]
    if mode is Mode.append:
        parts.append(ADD_ONLY)
    elif mode is Mode.replan and plan.steps:
        parts.append(
            'There was a plan before. Its resolved steps stay, so do not plan them again; its open steps go, so plan '
            f'again what is still needed of them:\n{render_tree(plan)}'
        )
    return parts


def revision_prompt(comment: str) -> str:
    """Return what a planner is told whose plan a person has read."""
    return (
        f'A person has read the plan, may have changed it, and says:\n{shown_block(comment)}\n'
        'Change the plan accordingly with the plan tools; what is not concerned stays. Then give the whole brief again.'
    )


def executor_prompt(plan: Plan) -> str:
    """Return the executor's first message: objective and brief. The plan itself is in the reminder.

    One without a plan is given the whole objective, since it plans.
    """
    if not plan.steps:
        return shown_block(plan.objective)
    return '\n\n'.join((*_session_parts(plan), 'Carry out the plan.'))


def worker_prompt(plan: Plan, step: Step) -> str:
    """Return the first message of one of several executors: objective, brief, and the step that it has taken."""
    task = f'{ASSIGNED.format(id=step.id)}\n{shown(step.content)}'
    if above := [shown(ancestor.content) for ancestor in _ancestors(plan, step)]:
        task += f'\nIt is a part of: {"; ".join(above)}'
    if step.note:
        task += f'\nNote: {shown(step.note)}'
    return '\n\n'.join((*_session_parts(plan), task))


def worker_nudge(step: Step) -> str:
    """Return what an executor is told that stopped before its one step was done."""
    return (
        f'Step {step.id} is still in progress. Go on with it, and record with the plan tools what has become of it: '
        'completed once its outcome is checked, or blocked, with the reason.'
    )


def _ancestors(plan: Plan, step: Step) -> list[Step]:
    """Return what a step is a part of, the nearest first; another program may have stored a circle."""
    found: dict[str, Step] = {}
    above = plan.get(step.parent_id or '')
    while above is not None and above.id not in found:
        found[above.id] = above
        above = plan.get(above.parent_id or '')
    return list(found.values())


def _session_parts(plan: Plan) -> list[str]:
    parts: list[str] = []
    if plan.objective:
        parts.append(f'Objective:\n{_bounded(plan.objective)}')
    if plan.brief:
        parts.append(f'Brief:\n{_bounded(plan.brief)}')
    return parts


def nudge(plan: Plan, steps: list[Step]) -> str:
    """Return what an executor is told that stopped although these steps can be worked on."""
    shown = [step_line(plan, step) for step in steps[:_NUDGED_STEPS]]
    if len(steps) > _NUDGED_STEPS:
        shown.append(f'and {len(steps) - _NUDGED_STEPS} more')
    lines = '\n'.join(shown)
    return (
        f'The plan is not finished. These steps can be worked on:\n{lines}\n'
        'Go on with them. Only the plan counts: record with the plan tools what is completed, and set what cannot be '
        'done blocked, with the reason.'
    )


def _bounded(text: str) -> str:
    text = shown_block(text)
    if len(text) <= BRIEF_LIMIT:
        return text
    rest = len(text) - BRIEF_LIMIT
    return f'{text[:BRIEF_LIMIT]}\n[cut; `planctl show --json` has the whole: {rest} more characters]'


_MENTIONED = re.compile(r'(?i)\b(?:step|task)s?\s+#?([\w-]+(?:(?:\s*[,/–]\s*|\s+(?:and|or|to)\s+)#?[\w-]+)*)')


def renumbered(brief: str, ids: Mapping[str, str]) -> str:
    """Return the brief with a line on top for steps that it names by ids which they do not have."""
    named = {word for match in _MENTIONED.finditer(brief) for word in re.split(r'[\s,/–#]+', match[1])}
    pairs = [f'step {old} is {new}' for old, new in ids.items() if old in named]
    return f'[In the plan, what is called {", ".join(pairs)}.]\n{brief}' if pairs else brief
