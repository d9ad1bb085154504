"""Every word of the plan tools that a model reads: descriptions, guidance, answers, ways out. Nothing is decided here.

Where a tool is named, it is named by a `{field}`, because an agent may have it under another name, or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping

CORE_TOOLS = ('write_plan', 'read_plan', 'add_task', 'update_task_status', 'update_task_statuses', 'remove_task')
SUBTASK_TOOLS = ('add_subtask', 'set_dependency', 'get_available_tasks')

# --- Descriptions -----------------------------------------------------------------------------------------------

DESCRIPTIONS: Mapping[str, str] = {
    'write_plan': 'Replace the plan: every step, in order. Keep known ids; a step left out is removed.',
    'read_plan': 'Read all steps with ids.',
    'add_task': 'Add a pending step.',
    'update_task_status': 'in_progress when you start a step, completed when it is done and checked.',
    'update_task_statuses': 'Update several, all or none.',
    'remove_task': 'Delete a step.',
    'add_subtask': 'Add a pending step under another.',
    'set_dependency': 'Make a step wait, blocked, until another is completed or cancelled; remove undoes that.',
    'get_available_tasks': 'List the steps that can be worked on now.',
}

WRITE_SUBTASKS = ' parent_id: the step it is part of; depends_on: steps it waits for; both may name ids given here.'
BLOCK_WITH_NOTE = ' If you cannot go on: blocked, with a note that says why.'

# --- Guidance ---------------------------------------------------------------------------------------------------

GUIDANCE_WRITE = 'For work of several steps, first lay out the steps with `{write_plan}`.'
GUIDANCE_WORK = (
    'Keep exactly one step in_progress, and mark it completed with `{updating}` once done and checked, not before.'
)
GUIDANCE_ADD = 'Add work that comes up with `{add_task}`.'
GUIDANCE_SUBTASK = 'Break a large step into parts with `{add_subtask}`.'
GUIDANCE_ORDER = (
    'Where a step needs another one first, say so with `{set_dependency}`: it stays blocked until that one is '
    'completed or cancelled.'
)
GUIDANCE_AVAILABLE = '`{get_available_tasks}` lists what can be worked on now.'
GUIDANCE_REMINDER = 'The stored plan is shown with every request.'

# --- Arguments that cannot be used ------------------------------------------------------------------------------

NOT_JSON = 'The arguments are not JSON ({reason}). Give one object with: {fields}.'
NOT_AN_OBJECT = 'The arguments must be one object with: {fields}. Got {got}.'
NO_FIELDS = 'nothing, an empty object'
UNKNOWN_FIELD = 'Unknown field {name} in {where}. Known fields: {fields}.'
ONLY_WITH_SUBTASKS = '{name} cannot be used here: this plan has no subtasks and no dependencies.'
MISSING = '{name} is missing in {where}. Fields: {fields}.'
WRONG_TYPE = '{name} must be {expected}, not {got}.'
UNKNOWN_STATUS = '{name} {got} is not a status. Statuses: {statuses}.'
NO_UPDATES = 'updates is empty: give at least one {task_id, status}.'

# --- Answers ----------------------------------------------------------------------------------------------------

EMPTY = 'The plan has no steps.'
SAVED = 'Saved. Ids in order: {ids}.'
SAVED_EMPTY = 'Saved: the plan has no steps now.'
SAVED_UNCHANGED = 'The plan was like this already. Ids in order: {ids}.'
ADDED = 'Added step {id}.'
ADDED_UNDER = 'Added step {id} under {parent}.'
MOVED = 'Step {id} ({text}) is {status}.'
MOVED_SEVERAL = 'Now {status}: {ids}.'
ALREADY = 'Already so: {ids}.'
BUT_WAITS = 'It waits for open steps, so it is blocked.'
REMOVED = 'Removed: {ids}.'
WAITS = 'Step {id} waits for {on} now and is {status}.'
WAITS_NO_LONGER = 'Step {id} no longer waits for {on} and is {status}.'
PROGRESS = 'Plan: {progress}.'

UNBLOCKED = 'No longer blocked: {ids}.'
NOW_BLOCKED = 'Blocked now, since they wait for open steps: {ids}.'
SEVERAL_IN_PROGRESS = 'Note: {ids} are all in progress; keep it to one.'
COMPLETABLE = 'All subtasks of {ids} are resolved, so it can be completed too.'
DROPPED = 'Removed although open, because the list left them out: {ids}.'
KEPT = 'Kept although the list left them out, because you were not shown them as they are now: {ids}.'
BY_TEXT = 'Matched by text where id and text disagreed: {ids}.'
ID_TAKEN = 'Another id, since the one that you gave is that of another step: {ids}.'
BY_TEXT_PAIR = '{given} is step {taken}'
STAYS_DELETED = 'Not brought back, since somebody else removed them meanwhile: {ids}. Add anew what is still needed.'
OVERRULED = 'Somebody else had changed this too; yours stands, theirs was: {values}.'
MERGED = 'You only repeated what somebody else had changed meanwhile, so theirs stands: {values}.'
VALUE = 'step {id} {field} "{value}"'
OTHER_REMARK = '{code}: {ids}.'

PART_OF = ' (part of {parent})'
AVAILABLE = 'Can be worked on now:'
AFTER_SUBTASKS = ' (after its subtasks)'
AND_MORE = 'and {count} more.'
NONE_FINISHED = 'Nothing is left to do: every step is resolved.'
NONE_AVAILABLE = 'No step can be worked on now: the open ones are blocked or held by somebody else.'

# --- Refusals ---------------------------------------------------------------------------------------------------

REFUSED = 'Not done: {message}.'
THE_IDS = 'The ids are: {ids}.'
NO_IDS = 'The plan has no steps.'

WAYS_OUT: Mapping[str, tuple[tuple[str, str], ...]] = {
    'open_prerequisite': (
        ('update', 'Complete or cancel {blocking} first.'),
        ('set_dependency', 'If that was wrong, take the dependency away: `{set_dependency}` with remove=true.'),
    ),
    'open_children': (('update', 'Complete or cancel {blocking} first, or together with it.'),),
    'resolved_parent': (('update', 'Set {blocking} to pending first.'),),
    'nothing_to_wait_for': (('update', 'Set it to pending or in_progress.'),),
    'cycle': (('set_dependency', 'Take one of these dependencies away first: `{set_dependency}` with remove=true.'),),
    'stated_cycle': (('', 'Leave out what closes the circle.'),),
    'duplicate_dependency': (('', 'There is nothing to do.'),),
    'empty_replacement': (
        ('update', 'If they are not wanted any more, set them to cancelled.'),
        ('remove_task', 'To be rid of them, use `{remove_task}`.'),
        ('write_plan', 'To drop some of them, list the others.'),
    ),
    'unsupported': (('', 'Leave the note out.'),),
    'lost_claim': (('get_available_tasks', '`{get_available_tasks}` lists what is free.'),),
}
"""By error code: sentences, each with the tool that it takes. `update` is any tool that sets a status, '' is none."""
