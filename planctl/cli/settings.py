"""The options that every command takes, before and after its name, and what they come to. Knows no command."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated, Any

import typer

import planctl
from planctl.cli import complete
from planctl.errors import InputError, PlanctlError


@dataclass(frozen=True, slots=True)
class Settings:
    """The global options as given; `None` is one that was given neither on the line nor in the environment."""

    db: str | None = None
    session: str | None = None
    actor: str | None = None
    json: bool = False
    quiet: bool = False
    debug: bool = False

    @property
    def session_name(self) -> str:
        """The session that is meant when nothing else names one."""
        return 'default' if self.session is None else self.session

    @property
    def is_server(self) -> bool:
        """Whether the database that was given is one of a server, not a file."""
        return '://' in (self.db or '') and not (self.db or '').lower().startswith('sqlite')


def _version(ctx: typer.Context, value: bool | None) -> None:
    if value and not ctx.resilient_parsing:
        from planctl.cli.output import emit, emit_json, flags

        if '--json' in flags():
            emit_json({'schema': 1, 'kind': 'version', 'version': planctl.__version__})
        else:
            emit(f'planctl {planctl.__version__}\n')
        raise typer.Exit


def _globals(*, root: bool) -> dict[str, Any]:
    """Return the annotation of each global option.

    Only the root looks at the environment: a command that did would let it beat an option before its name.
    """

    def option(*names: str, help: str, metavar: str | None = None, variable: str | None = None, **more: Any) -> Any:
        return typer.Option(
            *names,
            help=help,
            metavar=metavar,
            envvar=variable if root else None,
            show_default=False,
            rich_help_panel='Global options',
            **more,
        )

    db = option('--db', metavar='FILE', variable='PLANCTL_DB', help='The plan database: a file or a URL.')
    session = option(
        '--session',
        metavar='NAME',
        variable='PLANCTL_SESSION',
        help='The session in it.',
        autocompletion=complete.sessions,
    )
    actor = option('--actor', metavar='NAME', variable='PLANCTL_ACTOR', help='Who acts, for the log and for claims.')
    version = option('--version', help='Print the version.', callback=_version, is_eager=True)
    return {
        'db': Annotated[str | None, db],
        'session': Annotated[str | None, session],
        'actor': Annotated[str | None, actor],
        'json': Annotated[bool | None, option('--json', help='Answer with one JSON document; errors too.')],
        'quiet': Annotated[bool | None, option('--quiet', '-q', help='Print nothing but ids of new or claimed steps.')],
        'debug': Annotated[bool | None, option('--debug', help='Add the traceback to an error.')],
        'version': Annotated[bool | None, version],
    }


def with_globals(
    function: Callable[..., int], *, root: bool = False, takes_context: bool = False
) -> Callable[..., int]:
    """Return a function for Typer that takes the global options as well and calls `function(settings, …)`.

    What is given after the command's name beats what was given before it, and both beat the environment. The function
    of a group (`takes_context`, the root's too) is called with the context, whose `obj` is the settings. An option of
    the function's own by the name of a global one takes its place.
    """
    own = [*inspect.signature(function, eval_str=True).parameters.values()][1:]
    more = _globals(root=root)
    for parameter in own:
        more.pop(parameter.name, None)

    @functools.wraps(function)
    def run(ctx: typer.Context, **given: Any) -> int:
        stated = {name: value for name in more if (value := given.pop(name)) is not None and name != 'version'}
        ctx.obj = replace(ctx.obj or Settings(), **stated)
        _require_values(ctx)
        try:
            return function(ctx if root or takes_context else ctx.obj, **given)
        except PlanctlError as error:
            from planctl.cli.advice import advise

            advise(error, ctx.command_path.partition(' ')[2].partition(' ')[0] or None, ctx.obj)
            raise

    parameters = [
        inspect.Parameter('ctx', inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context),
        *own,
        *(
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=more[name])
            for name in more
        ),
    ]
    # Typer reads these two; by `__wrapped__` it would find the signature of the function inside.
    run.__dict__['__signature__'] = inspect.Signature(parameters)
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    del run.__dict__['__wrapped__']
    return run


def _require_values(ctx: typer.Context) -> None:
    """Raise `InputError` for an option whose value was forgotten, so that it took the option behind it for one."""
    from planctl.cli.output import flags

    options = {name: option for option in ctx.command.params for name in option.opts if name.startswith('-')}
    for word, value in pairwise(flags()):
        if word in options and value in options and not getattr(options[word], 'is_flag', False):
            hint = f'where it is the value: {options[word].opts[-1]}={value}'
            raise InputError(f'{word} needs a value before {value}', hint=hint)
