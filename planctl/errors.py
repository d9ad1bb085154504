"""Every error that planctl raises on purpose. Each class has a stable `code`; nothing here decides or prints.

PlanctlError
├── InputError                 what was given cannot be used             (exit status 2)
│   ├── BlankText              also a ValueError
│   ├── InvalidId              also a ValueError
│   └── InvalidName            a session, table or owner name; also a ValueError
├── NotFound                   what was named is not there               (3)
│   ├── DatabaseNotFound
│   ├── SessionNotFound
│   ├── StepNotFound
│   ├── AmbiguousId
│   ├── NoneAvailable
│   └── RevisionNotFound       nothing is logged that could be undone
├── Refused                    the plan's rules forbid it                (4)
│   ├── OpenPrerequisite
│   ├── OpenChildren
│   ├── HasChildren
│   ├── ResolvedParent
│   ├── NothingToWaitFor
│   ├── DependencyCycle
│   ├── DuplicateDependency
│   ├── DuplicateId            also a ValueError
│   ├── EmptyReplacement
│   ├── LostClaim
│   ├── SessionExists
│   ├── SessionHeld            another run works on the session
│   ├── UndoConflict           a later change touched the same
│   ├── UnfinishedPlan         planning over a plan that still has open steps
│   └── Unsupported            the store cannot hold it
├── StorageError               the database failed                       (5)
│   ├── StoreUnavailable       it may pass; also a ConnectionError
│   ├── DamagedStore
│   │   └── DamagedStep        one step of the plan cannot be read
│   ├── NewerSchema
│   └── DriverMissing
└── AgentError                 the model, its provider or the agent file (7)
    ├── SpecError
    ├── ExtraMissing
    ├── ModelError
    │   └── ToolError          a tool of the agent failed
    └── ReplayError            a run is not the one that was recorded
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar


class PlanctlError(Exception):
    """planctl could not do what was asked."""

    code: ClassVar[str] = 'error'
    """Stable for scripts and tests; the words of the message are not."""

    message: str
    """What happened and why, in one line."""

    ids: tuple[str, ...]
    """The steps that the message is about, those that stand in the way last."""

    hint: str | None
    """What to do next, where one thing is right for every caller; the adapters add theirs by `code`."""

    def __init__(self, message: str | None = None, *, ids: Iterable[str] = (), hint: str | None = None) -> None:
        text = message if message is not None else (type(self).__doc__ or '').partition('\n')[0].rstrip('.')
        # One positional argument, the rest in `__dict__`: durable engines pickle errors by exactly that.
        super().__init__(text)
        self.message = text
        self.ids = tuple(ids)
        self.hint = hint


class InputError(PlanctlError):
    """What was given cannot be used."""

    code = 'usage'


class BlankText(InputError, ValueError):
    """The text of a step is blank."""

    code = 'blank_text'


class InvalidId(InputError, ValueError):
    """A step id has 1 to 64 printable characters, no space, no < or >, and does not start with a dash."""

    code = 'invalid_id'


class InvalidName(InputError, ValueError):
    """The name of a session or table cannot be used."""

    code = 'invalid_name'


class NotFound(PlanctlError):
    """What was named is not there."""

    code = 'not_found'


class DatabaseNotFound(NotFound):
    """There is no plan database here."""

    code = 'database_not_found'


class SessionNotFound(NotFound):
    """The database has no such session."""

    code = 'session_not_found'


class StepNotFound(NotFound):
    """The plan has no such step."""

    code = 'step_not_found'


class AmbiguousId(NotFound):
    """Several ids begin like that."""

    code = 'ambiguous_id'


class NoneAvailable(NotFound):
    """No step can be started now."""

    code = 'none_available'


class RevisionNotFound(NotFound):
    """There is nothing to undo."""

    code = 'revision_not_found'


class Refused(PlanctlError):
    """The plan's rules forbid it."""

    code = 'refused'


class OpenPrerequisite(Refused):
    """The step waits for others that are not resolved."""

    code = 'open_prerequisite'


class OpenChildren(Refused):
    """The step has subtasks that are not resolved."""

    code = 'open_children'


class HasChildren(Refused):
    """The step has subtasks, which would be removed with it."""

    code = 'has_children'


class ResolvedParent(Refused):
    """The parent of the step is already resolved."""

    code = 'resolved_parent'


class NothingToWaitFor(Refused):
    """The step cannot be blocked: everything that it waits for is resolved."""

    code = 'nothing_to_wait_for'


class DependencyCycle(Refused):
    """The steps would wait for each other."""

    code = 'cycle'


class DuplicateDependency(Refused):
    """The step already waits for that one."""

    code = 'duplicate_dependency'


class DuplicateId(Refused, ValueError):
    """A step with this id is already in the plan."""

    code = 'duplicate_id'


class EmptyReplacement(Refused):
    """An empty plan cannot replace one that has open steps."""

    code = 'empty_replacement'


class LostClaim(Refused):
    """The step is held by somebody else."""

    code = 'lost_claim'


class SessionExists(Refused):
    """A session of this name is there already."""

    code = 'session_exists'


class SessionHeld(Refused):
    """Another run works on this session."""

    code = 'session_held'


class UndoConflict(Refused):
    """A later change touched the same."""

    code = 'undo_conflict'


class UnfinishedPlan(Refused):
    """The session has a plan with open steps."""

    code = 'unfinished_plan'


class Unsupported(Refused):
    """This store cannot hold that."""

    code = 'unsupported'


class StorageError(PlanctlError):
    """The database failed."""

    code = 'storage'


class StoreUnavailable(StorageError, ConnectionError):
    """The database cannot be reached or is locked; it may pass."""

    code = 'unavailable'


class DamagedStore(StorageError):
    """The database is not one that planctl can read."""

    code = 'damaged'


class DamagedStep(DamagedStore):
    """A step cannot be read; until it is edited or removed, nothing else is changed."""

    code = 'damaged_step'


class NewerSchema(StorageError):
    """The database was written by a newer planctl."""

    code = 'newer_schema'


class DriverMissing(StorageError):
    """The driver for this database is not installed."""

    code = 'driver_missing'


class AgentError(PlanctlError):
    """The model, its provider or the agent file failed."""

    code = 'agent'


class SpecError(AgentError):
    """The agent file cannot be used."""

    code = 'spec'


class ExtraMissing(AgentError):
    """An optional package is needed for this."""

    code = 'extra_missing'


class ModelError(AgentError):
    """The model or its provider failed."""

    code = 'model'


class ToolError(ModelError):
    """A tool of the agent failed."""

    code = 'tool'


class ReplayError(AgentError):
    """The run is not the one that was recorded."""

    code = 'replay'
