"""The types behind the names under `capabilities`: pydantic-ai's, the harness's, other packages'. Builds none."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from planctl.agent.models import one_line
from planctl.errors import ExtraMissing, PlanctlError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from pydantic_ai.capabilities import AbstractCapability

    Kind: TypeAlias = type[AbstractCapability[Any]]

GROUP = 'planctl.capabilities'
"""The group of entry points by which an installed package offers capabilities, each under the name that files use."""

WORKSPACE_EXTRA = frozenset(
    {
        'Advisor',
        'ApprovalReviewer',
        'AskUser',
        'BackgroundTools',
        'ClampOversizedMessages',
        'ClearToolResults',
        'CodeMode',
        'Coder',
        'CompactOnRequest',
        'ConversationSearch',
        'DeduplicateFileReads',
        'DockerSandbox',
        'ExaSearch',
        'FallbackCompaction',
        'FileSystem',
        'Memory',
        'PydanticAIDocs',
        'RelevanceCompaction',
        'RepoContext',
        'ReportContextUsage',
        'Researcher',
        'SSHWorkspace',
        'Shell',
        'Skills',
        'SlidingWindowCompaction',
        'SmartSearch',
        'SpendLimits',
        'StepPersistence',
        'SummarizingCompaction',
        'TieredCompaction',
        'ToolCallJudge',
        'ToolOutputLimits',
        'WarnNearLimits',
        'WarnOnCacheBusts',
    }
)
"""Capabilities that come with the extra `workspace`, to be told apart from misspelt ones while it is missing."""


class CapabilityTypes:
    """Finds the type of a name, and remembers those that pydantic-ai has to be told of."""

    def __init__(self) -> None:
        from pydantic_ai.capabilities import CAPABILITY_TYPES

        from planctl.agent.capability import Planning

        self._builtin = {name: kind for kind in CAPABILITY_TYPES.values() if (name := kind.get_serialization_name())}
        self.custom: dict[str, Kind] = {'Planning': Planning}
        """The types that were found and that are not pydantic-ai's own."""

    @property
    def names(self) -> list[str]:
        """Every name that a file may use, those included whose extra is missing."""
        return sorted({*self._builtin, *self.custom, *WORKSPACE_EXTRA, *_offered()})

    def find(self, name: str, error: Callable[[str], PlanctlError]) -> Kind | None:
        """Return the type of this name, or `None` when nothing has it.

        Raises what `error` makes of the reason when there is such a type and it cannot be had; `ExtraMissing` when it
        comes with something that is not installed.
        """
        known = self.custom.get(name) or self._builtin.get(name)
        if known is not None:
            return known
        found = _from_packages(name, error) or _from_harness(name, error)
        if found is not None:
            self.custom[name] = found
        return found

    def everything(self) -> list[Kind]:
        """Return all types that are not pydantic-ai's own and can be had here, for a schema."""
        for name in self.names:
            try:
                self.find(name, lambda message: PlanctlError(message))
            except PlanctlError:
                continue
        return list(self.custom.values())


def _offered() -> dict[str, list[EntryPoint]]:
    from importlib.metadata import entry_points

    offered: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=GROUP):
        same = offered.setdefault(point.name, [])
        # A package that is found twice on the path offers one thing.
        if all(other.value != point.value for other in same):
            same.append(point)
    return offered


def _from_packages(name: str, error: Callable[[str], PlanctlError]) -> Kind | None:
    points = _offered().get(name, [])
    if not points:
        return None
    owners = sorted({point.dist.name if point.dist is not None else point.value for point in points})
    if len(points) > 1:
        raise error(f'{" and ".join(owners)} both offer a capability of this name')
    try:
        kind: Any = points[0].load()
    except (Exception, SystemExit) as failure:
        why = (
            f'it ended the process: sys.exit({failure.code!r})'
            if isinstance(failure, SystemExit)
            else one_line(failure)
        )
        raise error(f'{owners[0]} offers it, and it cannot be loaded: {why}') from failure
    found = _as_capability(kind)
    if found is None:
        raise error(f'{owners[0]} offers it as {points[0].value}, which is no capability')
    if found.get_serialization_name() != name:
        raise error(f'{owners[0]} offers it, and it calls itself {found.get_serialization_name()!r}')
    if not _is_dataclass(found):
        raise error(f'{owners[0]} offers it, and its class is no dataclass, which pydantic-ai asks for')
    return found


def _is_dataclass(kind: Kind) -> bool:
    # Of its own: pydantic-ai reads the options of a file from it.
    return '__dataclass_fields__' in vars(kind)


def _from_harness(name: str, error: Callable[[str], PlanctlError]) -> Kind | None:
    try:
        harness = import_module('pydantic_ai_harness')
    except ImportError as failure:
        if name not in WORKSPACE_EXTRA:
            return None
        message = error("needs the extra 'workspace'").message
        raise ExtraMissing(message, hint="pip install 'planctl[workspace]'") from failure
    if name not in harness.__all__:
        return None
    try:
        kind: Any = getattr(harness, name)
    except ImportError as failure:
        raise ExtraMissing(error(one_line(failure)).message) from failure
    found = _as_capability(kind)
    if found is not None and (found.get_serialization_name() != name or not _is_dataclass(found)):
        raise error('can be given from Python only')
    return found


def _as_capability(kind: Any) -> Kind | None:
    from pydantic_ai.capabilities import AbstractCapability

    if not isinstance(kind, type) or not issubclass(kind, AbstractCapability):
        return None
    return cast('type[AbstractCapability[Any]]', kind)
