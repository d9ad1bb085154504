"""Whose failure it is: a tool is named by which an error was raised. What can be handled is passed on as it is."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.tools import RunContext
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool, WrapperToolset

from planctl.errors import ToolError


def is_cancelled() -> bool:
    """Whether somebody cancelled the current task; an `asyncio.CancelledError` can be raised by anybody."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def ended_by(error: SystemExit) -> str:
    """Return in words that something ended the process, or tried to."""
    return f'it ended the process: sys.exit({error.code!r})'


@dataclass(kw_only=True)
class ToolFailures(AbstractCapability[Any]):
    """Remembers which tool raised an error. What would end more than a call becomes a `ToolError`."""

    id: str | None = 'planctl_tool_failures'
    _raised: list[tuple[BaseException, str]] = field(default_factory=list[tuple[BaseException, str]], repr=False)

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any] | None:
        """Wrap all tools."""
        return _Watched(toolset, self)

    def raised(self, error: Exception, tool: str) -> None:
        """Note the tool; only the last one counts."""
        self._raised[:] = [(error, tool)]

    def tool_of(self, error: BaseException | None) -> str | None:
        """Return the tool that raised the error, or what it was made of."""
        for raised, tool in self._raised:
            while error is not None:
                if error is raised:
                    return tool
                error = error.__cause__
        return None


@dataclass
class _Watched(WrapperToolset[Any]):
    failures: ToolFailures

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """Call the tool."""
        try:
            return await self.wrapped.call_tool(name, tool_args, ctx, tool)
        except asyncio.CancelledError as error:
            if is_cancelled():
                raise
            raise ToolError(f'tool {name}: it was cancelled from inside (asyncio.CancelledError)') from error
        except SystemExit as error:
            raise ToolError(f'tool {name}: {ended_by(error)}') from error
        except Exception as error:
            self.failures.raised(error, name)
            raise
