"""What a run asks a person at the terminal: on stderr, answered on stdin, while the run's other duties go on."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from contextlib import suppress

from planctl.agent.person import Again, Go, Keep, Verdict
from planctl.cli.editor import command, not_run, on_file, read_back
from planctl.cli.live import Reporter
from planctl.cli.output import complain
from planctl.core import apply
from planctl.editing import edited, sheet
from planctl.errors import PlanctlError
from planctl.plan import Plan
from planctl.sanitize import shown, shown_block
from planctl.stores.base import BaseStore

REVIEW = 'Carry it out? [g]o, [e]dit'
REVIEW_AGAIN = ', [a]sk the planner again'
REVIEW_STOP = ', [s]top: '
COMMENT = 'What should be different? '
ALLOW = 'Allow it? [y]es, [N]o, [a]lways: '


class Asking:
    """The person at this terminal; what they edit is changed in the store under their name."""

    def __init__(self, watch: Reporter, store: BaseStore, actor: str) -> None:
        self._watch = watch
        self._store = store
        self._actor = actor
        self._always: set[str] = set()
        self.is_editing = False
        """Whether an editor has the terminal, and with it what is typed there."""

    async def review(self, plan: Plan, *, can_plan: bool) -> Verdict:
        """Show the plan and its brief, and ask until there is a decision. Whoever cannot be heard wants to stop."""
        question = f'{REVIEW}{REVIEW_AGAIN if can_plan else ""}{REVIEW_STOP}'
        with self._watch.aside():
            _show(plan)
            _forget_typed()
            while True:
                match (await _line(question) or 'stop').strip().lower():
                    case 'g' | 'go' | 'y' | 'yes':
                        return Go()
                    case 's' | 'stop' | 'n' | 'no' | 'q' | 'quit':
                        return Keep()
                    case 'e' | 'edit':
                        if await self._edit():
                            _show(await self._store.read())
                    case 'a' | 'ask' if can_plan:
                        if comment := (await _line(COMMENT) or '').strip():
                            return Again(comment)
                    case _:
                        pass

    async def allow(self, tool: str, arguments: str) -> bool:
        """Ask whether a tool may be called. Once always is always, for this tool and this run."""
        if tool in self._always:
            return True
        with self._watch.aside():
            complain(f'The agent wants to call {shown(tool)} {shown(arguments)}')
            _forget_typed()
            answer = (await _line(ALLOW) or '').strip().lower()
        if answer in ('a', 'always'):
            self._always.add(tool)
        return answer in ('y', 'yes', 'a', 'always')

    async def _edit(self) -> bool:
        """Let the person edit the plan; return whether that is stored, after saying why not."""
        shown_as = sheet(await self._store.read())
        self.is_editing = True
        try:
            with on_file(shown_as) as file:
                words = command(file.name)
                try:
                    process = await asyncio.create_subprocess_exec(*words)
                except OSError as error:
                    raise not_run(words, error) from error
                text = file.taken(read_back(words, await process.wait()))
                await apply(self._store, lambda now: edited(shown_as, text, now), actor=self._actor, label='edit')
        except (PlanctlError, OSError) as error:
            hint = getattr(error, 'hint', None)
            complain(f'planctl: {shown(str(error))}' + (f' ({shown(hint)})' if hint else ''))
            return False
        finally:
            self.is_editing = False
        return True


def _show(plan: Plan) -> None:
    from rich.console import Console
    from rich.text import Text

    from planctl.cli.view import PlanView

    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    console.print(PlanView(plan, time.time()))
    if plan.brief:
        console.print(Text(f'\n{shown_block(plan.brief)}'))
    console.print()


def _forget_typed() -> None:
    """Drop what was typed before there was a question: nobody says yes to what they have not read."""
    with suppress(ImportError):
        import termios

        with suppress(termios.error, OSError, ValueError):
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


async def _line(question: str) -> str | None:
    """Return a line that is typed, `None` at the end of the input.

    It is read on a thread that keeps no process alive, and not through `sys.stdin`, whose lock such a thread would
    take with it.
    """
    sys.stderr.write(question)
    sys.stderr.flush()
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[str | None] = loop.create_future()

    def read() -> None:
        try:
            typed = os.read(sys.stdin.fileno(), 65_536)
        except (OSError, ValueError):
            typed = b''
        with suppress(RuntimeError):  # The loop is closed: nobody waits any more.
            loop.call_soon_threadsafe(_answer, answer, typed.decode('utf-8', 'replace') if typed else None)

    threading.Thread(target=read, daemon=True).start()
    typed: str | None = None
    try:
        typed = await answer
    finally:
        if typed is None:  # What comes next begins on a line of its own, as it does where Enter was typed.
            complain('')
    return typed


def _answer(answer: asyncio.Future[str | None], typed: str | None) -> None:
    if not answer.done():
        answer.set_result(typed)
