"""What a run's model has been shown of the plan: the base of its next whole-plan write. Decides nothing."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass, field, replace

from planctl.change import StepChange
from planctl.operations import Operation, Replace
from planctl.plan import Step


@dataclass(slots=True)
class Seen:
    """Steps by id with the `fingerprint` that they had when their line was shown.

    The reminder is shown anew with each request, so only the last one counts; what a tool answered stays in the
    conversation until that is cut. What the run did itself counts as seen.
    """

    known: dict[str, str] | None = None
    """Every step as of the last reminder and the run's own operations since; `None` before the first reminder."""

    _reminder: dict[str, str] = field(default_factory=dict[str, str])
    _answers: dict[str, str] = field(default_factory=dict[str, str])
    _messages: int = 0
    last: tuple[Step, ...] = ()
    """The steps of the plan that the last reminder was made of, for `planctl.reminder.remind`."""

    _looked_at: tuple[Step, ...] = ()

    def look(self, steps: tuple[Step, ...]) -> None:
        """Note the steps that a reminder is made of; they count once it is shown. A recorded one was made of none."""
        self._looked_at = steps

    def remind(
        self,
        shown: Iterable[tuple[str, str]],
        rest: Iterable[tuple[str, str]] = (),
        gone: Iterable[str] = (),
        *,
        messages: int,
    ) -> None:
        """Note what a request showed. Fewer `messages` than before: earlier answers were cut away."""
        self.last, self._looked_at = self._looked_at, ()
        self._reminder = dict(shown)
        known = self.known = self.known or {}
        for step_id in gone:
            known.pop(step_id, None)
            # It was said that it is gone: who restates it now means it.
            self._answers.pop(step_id, None)
        known.update(rest)
        known.update(self._reminder)
        if messages < self._messages:
            self._answers.clear()
        self._messages = messages
        self._answers.update((step_id, mark) for step_id, mark in self._reminder.items() if step_id in self._answers)

    def answer(self, shown: Iterable[tuple[str, str]]) -> None:
        """Note the steps that a tool's answer showed."""
        self._answers.update(shown)

    def tell(self, told: Iterable[Step]) -> None:
        """Note the steps of which an answer said what became of them; a reminder need not mark them again."""
        for step in told:
            self._answers[step.id] = step.fingerprint
            self._reminder.pop(step.id, None)
            if self.known is not None:
                self.known[step.id] = step.fingerprint

    def did(self, changes: Iterable[StepChange]) -> None:
        """Note what the run itself changed, unless somebody else had changed the step before."""
        for change in changes:
            before, after = change.before, change.after
            if before is None and after is not None:
                self._answers[after.id] = after.fingerprint
                if self.known is not None:
                    self.known[after.id] = self._answers[after.id]
                continue
            assert before is not None
            maps: tuple[MutableMapping[str, str], ...] = (self._reminder, self._answers, self.known or {})
            for steps in maps:
                if after is None:
                    steps.pop(before.id, None)
                elif before.id in steps and steps[before.id] in ('', before.fingerprint):
                    steps[before.id] = after.fingerprint

    def based(self, operation: Operation) -> Operation:
        """Return a whole-plan write with what the model has seen for its base; any other operation as it is."""
        if not isinstance(operation, Replace):
            return operation
        return replace(operation, base=self.base(item.id for item in operation.items if item.id is not None))

    def base(self, named: Iterable[str] = ()) -> tuple[tuple[str, str], ...]:
        """Return what the model has seen; nothing, where a call that was put off is carried out before any request.

        Of the ids that it has `named` it also holds, with nothing for a fingerprint, those that it can mean a step by
        without having been shown its line: whatever was there at the last reminder.
        """
        meant = {step_id: '' for step_id in named if self.known is None or step_id in self.known}
        return tuple({**meant, **self._reminder, **self._answers}.items())
