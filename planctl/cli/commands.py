"""The table of commands and how each is built, only when it is asked for: building all costs what planctl costs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator, MutableMapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, cast

import typer
import typer.core
import typer.main

from planctl.cli.failure import is_usage
from planctl.cli.settings import with_globals

COMMANDS: dict[str, str] = {
    'show': 'planctl.cli.reading:show',
    'next': 'planctl.cli.reading:next_steps',
    'add': 'planctl.cli.changing:add',
    'edit': 'planctl.cli.changing:edit',
    'start': 'planctl.cli.changing:start',
    'done': 'planctl.cli.changing:done',
    'cancel': 'planctl.cli.changing:cancel',
    'block': 'planctl.cli.changing:block',
    'reopen': 'planctl.cli.changing:reopen',
    'rm': 'planctl.cli.changing:remove',
    'undo': 'planctl.cli.history:undo',
    'log': 'planctl.cli.history:log',
    'session': 'planctl.cli.sessions:sessions',
    'import': 'planctl.cli.exchanging:import_plan',
    'export': 'planctl.cli.exchanging:export',
    'run': 'planctl.cli.run:run_command',
    'where': 'planctl.cli.reading:where',
    'init': 'planctl.cli.starting:init',
}
"""Each command and the function behind it, `function(settings, …options…) -> exit status`, in the order of the help.

The docstring of the function is its help; a constant `EXAMPLES` of its module may map the command to an example.
The module is imported for its help as well, so that it has to import lazily what is dear.
"""

SUBCOMMANDS: dict[str, dict[str, str]] = {
    'session': {
        'list': 'planctl.cli.sessions:list_sessions',
        'copy': 'planctl.cli.sessions:copy',
        'rename': 'planctl.cli.sessions:rename',
        'rm': 'planctl.cli.sessions:remove',
    },
}
"""The commands below a command, whose own function is what it does alone. `EXAMPLES` names them with both words."""


_CALLED_ELSEWHERE: dict[str, tuple[str, ...]] = {
    'show': ('list', 'ls', 'status', 'tree', 'view'),
    'next': ('ready',),
    'add': ('create', 'new'),
    'edit': ('dep', 'modify', 'update'),
    'done': ('close', 'complete', 'finish'),
    'rm': ('delete', 'remove'),
    'log': ('history',),
    'list': ('ls',),
    'copy': ('cp',),
    'rename': ('mv',),
}
"""What other tools call these commands. Whoever types that is told ours, which is not spelled anything like it."""

_SETTINGS = {'help_option_names': ['-h', '--help']}


def application() -> Any:
    """Return the whole command line as one command."""
    app = typer.Typer(cls=_Root, add_completion=True, context_settings=_SETTINGS, **_look())
    app.callback(invoke_without_command=True)(with_globals(_root, root=True))
    return typer.main.get_command(app)


def _look() -> dict[str, Any]:
    """Return how help looks: in boxes on a terminal, in a pipe plain like everything else."""
    boxes = {} if sys.stdout is not None and sys.stdout.isatty() else {'rich_markup_mode': None}
    return {'pretty_exceptions_enable': False, **boxes}


def _root(ctx: typer.Context) -> int:
    """Keep a plan, alone or with agents: what is to be done, what waits for what, what is done.

    Without a command: show the plan.
    """
    if ctx.invoked_subcommand is not None:
        return 0
    from planctl.cli.reading import show

    return show(ctx.obj)


class _Commands(MutableMapping[str, Any]):
    """Command by name; builds one when it is looked up, and knows all the names before."""

    def __init__(self) -> None:
        self._built: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._built:
            self._built[name] = _build(name, COMMANDS[name])
        return self._built[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._built[name] = command

    def __delitem__(self, name: str) -> None:
        del self._built[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class _Command(typer.core.TyperCommand):
    """A command. What Typer leaves out of what it says of one is put in: the end of a sentence, whose option it was."""

    def get_short_help_str(self, limit: int = 0) -> str:
        """Return the first sentence, however long."""
        return super().get_short_help_str(_WHOLE)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse, and let no error go without the command."""
        with _naming(ctx):
            return super().parse_args(ctx, args)


class _Group(typer.core.TyperGroup):
    """Commands below a command, of which the same is said."""

    def get_short_help_str(self, limit: int = 0) -> str:
        """Return the first sentence, however long."""
        return super().get_short_help_str(_WHOLE)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse, and let no error go without the command."""
        with _naming(ctx):
            return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the words begin with; for what another tool calls it the error has its name here."""
        try:
            return super().resolve_command(ctx, args)
        except Exception as error:
            if is_usage(told := cast('Any', error)):
                told.possibilities = None  # A newer Click beside an older Typer would add what it thinks as well.
                for name, others in _CALLED_ELSEWHERE.items():
                    if name in self.commands and args[0] in others:
                        told.message = f'No such command {args[0]!r}. Did you mean {name!r}?'
            raise


_WHOLE = 1000
"""How long the first sentence of a help may be: help is wrapped, and a shell cuts what it completes itself."""


@contextmanager
def _naming(ctx: Any) -> Generator[None]:
    """Put the command into a usage error that comes without one."""
    try:
        yield
    except Exception as error:
        if is_usage(told := cast('Any', error)) and told.ctx is None:
            told.ctx = ctx
        raise


class _Root(_Group):
    """The group that does not build what it is not asked for."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = _Commands()

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names alone."""
        return list(self.commands)


def _build(name: str, where: str) -> Any:
    app = typer.Typer(name=name, cls=_Group, add_completion=False, **_look())
    function, epilog = _function(name, where)
    if name not in SUBCOMMANDS:
        app.command(name, cls=_Command, epilog=epilog)(with_globals(function))
        return typer.main.get_command(app)

    def alone(ctx: typer.Context) -> int:
        return 0 if ctx.invoked_subcommand is not None else function(ctx.obj)

    alone.__doc__ = function.__doc__
    app.callback(invoke_without_command=True, epilog=epilog)(with_globals(alone, takes_context=True))
    for below, place in SUBCOMMANDS[name].items():
        function_below, epilog = _function(f'{name} {below}', place)
        app.command(below, cls=_Command, epilog=epilog)(with_globals(function_below))
    return typer.main.get_command(app)


def _function(name: str, where: str) -> tuple[Callable[..., int], str | None]:
    module_name, _, function_name = where.partition(':')
    module = import_module(module_name)
    example: str | None = getattr(module, 'EXAMPLES', {}).get(name)
    return getattr(module, function_name), example and f'Example: {example}'
