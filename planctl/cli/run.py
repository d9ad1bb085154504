"""`planctl run`: its options, and which of them make no sense together. What runs is imported inside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from planctl.cli.interrupting import ends_at_once
from planctl.cli.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

    from planctl.agent.limits import LimitName

T = TypeVar('T')

EXAMPLES = {'run': 'planctl run --plan-first --model offline - < checklist.md'}

_FOR_BOTH = 'Limits: for planner and executor, each'
_FOR_PLANNER = 'Limits: for the planner alone'
_LIMITS = {
    'max_requests': ('N', 'How many requests to the model at most.'),
    'max_tokens': ('N', 'How many tokens at most, in and out.'),
    'max_cost': ('USD', 'What it costs at most, at the known prices.'),
    'timeout': ('TIME', 'How long it takes at most, as 90s, 15m, 2h.'),
    'retries': ('N', 'How often a request is made again after 429, 5xx or no connection. Default: 5.'),
}


def _limit(name: str, *, planner: bool) -> Any:
    metavar, text = _LIMITS[name]
    return typer.Option(
        f'--{"planner-" if planner else ""}{name.replace("_", "-")}',
        metavar=metavar,
        min=None if metavar != 'N' else 0 if name == 'retries' else 1,
        help=f'Planning alone: {text[0].lower()}{text[1:]}' if planner else text,
        rich_help_panel=_FOR_PLANNER if planner else _FOR_BOTH,
    )


def _agent(name: str, text: str) -> Any:
    return typer.Option(f'--{name}', metavar='FILE', help=text, rich_help_panel='Agents and models')


def _rehearsal(name: str, text: str) -> Any:
    return typer.Option(f'--{name}', metavar='FILE', help=text, rich_help_panel='Rehearsal')


def _model(name: str, text: str) -> Any:
    return typer.Option(f'--{name}', metavar='NAME', help=text, rich_help_panel='Agents and models')


@ends_at_once()
def run_command(
    settings: Settings,
    objective: Annotated[
        str | None, typer.Argument(metavar='[OBJECTIVE|-]', help='What is to be done; - reads it from stdin.')
    ] = None,
    *,
    plan_first: Annotated[bool, typer.Option('--plan-first', help='Plan, then carry the plan out.')] = False,
    plan_only: Annotated[bool, typer.Option('--plan-only', help='Plan, and stop there.')] = False,
    approve: Annotated[bool, typer.Option('--approve', help='Show the plan and ask before it is carried out.')] = False,
    append: Annotated[bool, typer.Option('--append', help='Plan, and add to the steps that are there.')] = False,
    replan: Annotated[bool, typer.Option('--replan', help='Plan the open steps again.')] = False,
    agent: Annotated[
        str | None, _agent('agent', 'An agent file, or module:variable. Default: the nearest agent.yaml.')
    ] = None,
    planner: Annotated[str | None, _agent('planner', 'Another agent for planning.')] = None,
    executor: Annotated[str | None, _agent('executor', 'Another agent for carrying out.')] = None,
    model: Annotated[str | None, _model('model', 'The model, as provider:name; `offline` needs no key.')] = None,
    planner_model: Annotated[str | None, _model('planner-model', 'Another model for planning.')] = None,
    max_nudges: Annotated[
        int, typer.Option(metavar='N', min=0, help='How often an agent that stops early is told what is open.')
    ] = 2,
    max_idle: Annotated[
        int, typer.Option(metavar='N', min=1, help='How many requests in a row may leave the plan as it is.')
    ] = 50,
    steps_per_context: Annotated[
        int | None, typer.Option(metavar='N', min=1, help='Start with a fresh context after so many resolved steps.')
    ] = None,
    max_requests: Annotated[int | None, _limit('max_requests', planner=False)] = None,
    max_tokens: Annotated[int | None, _limit('max_tokens', planner=False)] = None,
    max_cost: Annotated[str | None, _limit('max_cost', planner=False)] = None,
    timeout: Annotated[str | None, _limit('timeout', planner=False)] = None,
    retries: Annotated[int | None, _limit('retries', planner=False)] = None,
    planner_max_requests: Annotated[int | None, _limit('max_requests', planner=True)] = None,
    planner_max_tokens: Annotated[int | None, _limit('max_tokens', planner=True)] = None,
    planner_max_cost: Annotated[str | None, _limit('max_cost', planner=True)] = None,
    planner_timeout: Annotated[str | None, _limit('timeout', planner=True)] = None,
    planner_retries: Annotated[int | None, _limit('retries', planner=True)] = None,
    events: Annotated[
        str | None, typer.Option('--events', metavar='FILE|-', help='Write what happens as JSON, one object a line.')
    ] = None,
    mcp: Annotated[
        str | None, _agent('mcp', 'MCP servers for the agents. Default: mcp.json beside the agent file.')
    ] = None,
    workers: Annotated[
        int, typer.Option(metavar='N', min=1, max=100, help='Executors at the same time, each on a step of its own.')
    ] = 1,
    worker: Annotated[
        bool, typer.Option('--worker', help='Help another run: work on steps of its plan until none is left.')
    ] = False,
    record: Annotated[str | None, _rehearsal('record', 'Keep what the models answer.')] = None,
    replay: Annotated[str | None, _rehearsal('replay', 'Play what was recorded, without models.')] = None,
    print_spec: Annotated[
        bool, typer.Option('--print-spec', help='Show agents, models, store and tools, and do nothing.')
    ] = False,
    dry_run: Annotated[
        bool, typer.Option('--dry-run', help='Check everything, say what would be done, and do nothing.')
    ] = False,
) -> int:
    """Let an agent carry out the plan, after planning it where that is asked for.

    Ends with 0 when the plan is finished and with 6 when it is not, whatever the agent says.
    """
    from pathlib import Path

    from planctl.errors import InputError

    _refuse_both(
        append=append,
        replan=replan,
        approve=approve,
        plan_only=plan_only,
        plan_first=plan_first,
        worker=worker,
        workers=workers > 1,
        steps_per_context=steps_per_context is not None,
        objective=objective is not None,
        record=record is not None,
        replay=replay is not None,
    )
    if settings.json and events == '-':
        raise InputError('--json and --events - both write to stdout: --events FILE writes elsewhere')
    looks = print_spec or dry_run
    if approve and not looks:
        _require_terminal(objective)
    given = _objective(objective)
    folder = Path.cwd()
    if given is None and not print_spec:
        _require_plan(settings, executor or agent, folder)
    from planctl.agent.job import Wanted
    from planctl.cli.casting import Stage, cast_of
    from planctl.cli.limits import limits_of

    def first(one: T | None, other: T | None) -> T | None:
        return other if one is None else one

    # First what is said of both, so that a slip in it is told as one.
    of_planner: dict[LimitName, object] = {
        'max_requests': planner_max_requests,
        'max_tokens': planner_max_tokens,
        'max_cost': planner_max_cost,
        'timeout': planner_timeout,
    }
    for_both = limits_of(max_requests, max_tokens, max_cost, timeout, retries)
    wanted = Wanted(
        objective=given or '',
        plan_first=plan_first,
        plan_only=plan_only,
        append=append,
        replan=replan,
        approve=approve,
        max_nudges=max_nudges,
        max_idle=max_idle,
        planner=limits_of(
            first(planner_max_requests, max_requests),
            first(planner_max_tokens, max_tokens),
            first(planner_max_cost, max_cost),
            first(planner_timeout, timeout),
            first(planner_retries, retries),
            planning=True,
            of_both=frozenset(name for name, value in of_planner.items() if value is None),
        ),
        executor=for_both,
        steps_per_context=steps_per_context,
        workers=workers,
        helps=worker,
    )
    from planctl.cli.output import for_answers_alone
    from planctl.errors import ModelError

    with for_answers_alone():
        try:
            cast = cast_of(folder, wanted, agent, planner, executor, model, planner_model, Stage(mcp, record, replay))
            if looks:
                from planctl.cli.looking import look

                return look(settings, wanted, cast, dry_run=dry_run)
            from planctl.cli.running import run_and_answer

            return run_and_answer(settings, wanted, cast, events)
        except SystemExit as error:
            raise ModelError(f'the agent ended the process: sys.exit({error.code!r})') from error


_EXCLUDED = (
    ('append', 'replan', ''),
    ('approve', 'plan_only', ': --plan-only stops without asking'),
    ('record', 'replay', ''),
    ('workers', 'plan_only', ': nothing is carried out'),
    ('workers', 'steps_per_context', ': each step of a worker has a fresh context'),
    ('worker', 'steps_per_context', ': each step of a worker has a fresh context'),
    *(('worker', name, ': a worker plans nothing') for name in ('plan_first', 'plan_only', 'append', 'replan')),
    ('worker', 'approve', ': the plan is under way'),
    ('worker', 'objective', ': the objective is that of the session'),
)


def _refuse_both(**given: bool) -> None:
    from planctl.errors import InputError

    for one, other, why in _EXCLUDED:
        if given[one] and given[other]:
            named = 'an objective' if other == 'objective' else f'--{other.replace("_", "-")}'
            raise InputError(f'--{one} and {named} exclude each other{why}')


def _require_terminal(objective: str | None) -> None:
    from planctl.cli.terminal import is_conversation
    from planctl.errors import InputError

    if objective == '-':
        raise InputError(
            '--approve asks on stdin, where the objective comes from',
            hint='planctl run --plan-first --approve -- "$(cat FILE)"',
        )
    if not is_conversation():
        raise InputError(
            '--approve asks at a terminal, and here is none',
            hint='--plan-only stops after planning; review with `planctl show`, then `planctl run`',
        )


def _objective(given: str | None) -> str | None:
    """Return the objective; one that is given but says nothing is a usage error."""
    from planctl.cli.stdin import read_stdin
    from planctl.errors import InputError
    from planctl.sanitize import clean_block

    if given is None:
        return None
    text = clean_block(read_stdin() if given == '-' else given)
    if not text:
        raise InputError('the objective on stdin is empty' if given == '-' else 'the objective is empty')
    return text


def _require_plan(settings: Settings, agent: str | None, folder: Path) -> None:
    """Without an objective there has to be a plan: say so before a missing agent or model is complained about."""
    from planctl.agent.nearest import nearest_agent_file
    from planctl.cli.database import read
    from planctl.errors import DatabaseNotFound, NotFound, SessionNotFound

    if agent is not None or nearest_agent_file(folder) is not None:
        return  # It may name the database.
    hint = 'planctl run --plan-first "what is to be done"'
    try:
        plan = read(settings)
    except (DatabaseNotFound, SessionNotFound) as error:
        raise type(error)(f'{error.message}, and no objective was given', hint=hint) from None
    if not plan.steps and not plan.objective:
        raise NotFound(f'session {plan.session!r} has no plan, and no objective was given', hint=hint)
