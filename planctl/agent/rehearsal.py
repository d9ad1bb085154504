"""A run's model responses, kept in a file and played again without network, as long as the run asks the same.

A recording is JSON lines. The first is `{"schema": 1, "kind": "recording"}`. Each other one is a request and its
response, in the order of the answers: `thread` (who asked: `planner`, `executor`, or `step ID` for one of several
executors), `model`, `request` (what matters of it: `tools` with their arguments, `plan` and `prompt` line by line) and
`response` (its parts and its usage). Ids and times, secrets, and what only a provider understands are left out.
"""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from pydantic import TypeAdapter
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext

from planctl.agent.at_once import AtOnce
from planctl.agent.essence import Secrets, difference, essence
from planctl.agent.outcome import Result, StopReason
from planctl.errors import PlanctlError, ReplayError, StorageError

_CUT_SHORT = (StopReason.interrupted, StopReason.terminated, StopReason.hung_up)

HEAD = {'schema': 1, 'kind': 'recording'}
BEGINNING = json.dumps(HEAD)
"""The first line of a recording."""

_KEPT = frozenset({'parts', 'usage', 'model_name', 'finish_reason', 'kind'})
_PROVIDERS_OWN = frozenset({'signature', 'provider_details', 'provider_name', 'timestamp'})


class Threaded(ABC):
    """A model that keeps apart who asks it, so that several who ask at once are played in any order."""

    @abstractmethod
    def thread(self, name: str) -> Model:
        """Return the model for one that asks."""


def threaded(model: Model, name: str) -> Model:
    """Return the model for one of several that ask it at once."""
    return model.thread(name) if isinstance(model, Threaded) else model


def step_thread(step_id: str) -> str:
    """Return the name of the thread of one of several executors that works on a step."""
    return f'step {step_id}'


def _essence(thread: str, messages: Sequence[ModelMessage], parameters: ModelRequestParameters) -> dict[str, Any]:
    step_id = thread.removeprefix('step ') if thread.startswith('step ') else None
    return essence(messages, parameters, step_id=step_id)


class Rehearsal(ABC):
    """A run whose models are recorded or played."""

    @abstractmethod
    def begin(self) -> None:
        """Make sure, before anything is asked, that it can be done. Raises `StorageError`."""

    @abstractmethod
    def ended(self, result: Result) -> Result:
        """Return the result of the run; an error where the rehearsal came to nothing."""

    @staticmethod
    def _failed(result: Result, error: PlanctlError) -> Result:
        if result.error is not None or result.stop_reason in _CUT_SHORT:
            return result
        return replace(result, stop_reason=StopReason.error, message=error.message, error=error)


class Recorder(Rehearsal):
    """Writes a recording. The file begins anew with the first response, so that a run that had none keeps the old.

    A file that takes no more ends the recording, not the run, whose requests are paid for.
    """

    def __init__(self, path: Path, label: str, secrets: Secrets) -> None:
        self._path = path
        self._label = label
        self._secrets = secrets
        self._begun = False
        self._broken: OSError | None = None

    def begin(self) -> None:
        """Make sure that the file can be written, and leave it as it is."""
        is_new = not os.path.lexists(self._path)
        try:
            with self._path.open('a'):
                pass
            if is_new:
                self._path.unlink()
        except OSError as error:
            raise StorageError(f'--record {self._label}: {error.strerror or error}') from error

    def ended(self, result: Result) -> Result:
        """Return the result; it is an error when not everything was recorded."""
        if self._broken is None:
            return result
        words = f'--record {self._label}: {self._broken.strerror or self._broken}; the recording is not complete'
        return self._failed(result, StorageError(words))

    def model(self, wrapped: Model, thread: str) -> Model:
        """Return a model that does as `wrapped` does, and is recorded."""
        return _RecordingModel(wrapped, self, thread)

    def add(self, thread: str, request: dict[str, Any], response: ModelResponse) -> None:
        """Write one request and its response."""
        if self._broken is not None:
            return
        dumped: Any = ModelMessagesTypeAdapter.dump_python([response], mode='json')[0]
        entry = {'thread': thread, 'model': response.model_name, 'request': request, 'response': _without_own(dumped)}
        try:
            with self._path.open('a' if self._begun else 'w', encoding='utf-8') as file:
                for line in (entry,) if self._begun else (HEAD, entry):
                    file.write(json.dumps(self._secrets.hide(line), ensure_ascii=False) + '\n')
        except OSError as error:
            self._broken = error
        self._begun = True


def _without_own(response: dict[str, Any]) -> dict[str, Any]:
    """Return a response without what is of use to its provider alone, or is another one each time."""
    kept = {key: value for key, value in response.items() if key in _KEPT}
    parts = [{k: v for k, v in part.items() if k not in _PROVIDERS_OWN and v is not None} for part in kept['parts']]
    usage = {key: value for key, value in cast('dict[str, Any]', kept.get('usage') or {}).items() if value}
    return {**kept, 'parts': parts, 'usage': usage}


class _RecordingModel(WrapperModel, Threaded):
    def __init__(self, wrapped: Model, recorder: Recorder, thread: str) -> None:
        super().__init__(wrapped)
        self._recorder = recorder
        self._thread = thread

    def thread(self, name: str) -> Model:
        return _RecordingModel(self.wrapped, self._recorder, name)

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        asked = _essence(self._thread, messages, model_request_parameters)
        response = await self.wrapped.request(messages, model_settings, model_request_parameters)
        self._recorder.add(self._thread, asked, response)
        return response

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        asked = _essence(self._thread, messages, model_request_parameters)
        async with self.wrapped.request_stream(
            messages, model_settings, model_request_parameters, run_context
        ) as stream:
            yield stream
        self._recorder.add(self._thread, asked, stream.get())


class Recording(Rehearsal):
    """A recording that is played: each thread gets its responses in their order."""

    def __init__(self, path: Path, label: str, secrets: Secrets) -> None:
        self.label = label
        self._secrets = secrets
        self._threads: dict[str, list[dict[str, Any]]] = {}
        self._played: dict[str, int] = {}
        try:
            lines = path.read_text(encoding='utf-8').splitlines()
        except FileNotFoundError as error:
            raise ReplayError(f'{label}: there is no such recording') from error
        except (OSError, UnicodeDecodeError) as error:
            raise ReplayError(f'{label}: cannot be read: {error}') from error
        for number, line in enumerate(lines, 1):
            where = f'{label}:{number}'
            entry = _object(line, where)
            if number == 1:
                if {**entry, **HEAD} != entry:
                    raise ReplayError(f'{label}: this is no recording of planctl, or one of a newer one')
                continue
            self._threads.setdefault(str(entry.get('thread')), []).append(_checked(entry, where))
        if not lines:
            raise ReplayError(f'{label}: this is no recording of planctl: it is empty')

    def begin(self) -> None:
        """Do nothing: it was read when it was made."""

    def model(self, thread: str) -> Model:
        """Return the model that answers one that asks."""
        return _ReplayModel(self, thread)

    def name_of(self, thread: str) -> str:
        """Return the name of the model that was recorded."""
        entries = self._threads.get(thread) or [each[0] for each in self._threads.values()]
        return str(entries[0].get('model')) if entries else 'recording'

    def next(self, thread: str, asked: dict[str, Any]) -> ModelResponse:
        """Return the next response of a thread. Raises `ReplayError` when it is asked something else."""
        at = self._played.get(thread, 0)
        entries = self._threads.get(thread, [])
        where = f'{self.label}: request {at + 1} of {thread}'
        if at >= len(entries):
            raise ReplayError(f'{where} was not recorded; there are {self._held() or "none at all"}')
        if differs := difference(entries[at]['request'], self._secrets.hide(asked)):
            raise ReplayError(f'{where} differs, - recorded and + asked now: {differs}')
        self._played[thread] = at + 1
        return entries[at]['response']

    def _held(self) -> str:
        return ', '.join(f'{len(entries)} of {thread}' for thread, entries in self._threads.items())

    def ended(self, result: Result) -> Result:
        """Return the result; it is an error when less was asked than was recorded."""
        left = self.leftover()
        return result if left is None else self._failed(result, ReplayError(left))

    def leftover(self) -> str | None:
        """Return what was recorded and not asked for, in one line."""
        left = [
            f'{len(entries) - played} of {thread}'
            for thread, entries in self._threads.items()
            if (played := self._played.get(thread, 0)) < len(entries)
        ]
        return f'{self.label}: recorded requests were not made: {", ".join(left)}' if left else None


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        entry: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _no_recording(where, error) from error
    if not isinstance(entry, dict):
        raise _no_recording(where, 'this is no object')
    return cast('dict[str, Any]', entry)


def _checked(entry: dict[str, Any], where: str) -> dict[str, Any]:
    """Return an entry of a recording whose request can be compared and whose response can be given."""
    try:
        request = _LINES.validate_python(entry.get('request'), strict=True)
        (response,) = ModelMessagesTypeAdapter.validate_python([{'kind': 'response', **entry['response']}])
    except KeyError as error:
        raise _no_recording(where, 'there is no response') from error
    except (ValueError, TypeError) as error:
        raise _no_recording(where, error) from error
    if not isinstance(response, ModelResponse):
        raise _no_recording(where, 'the response is none')
    return {**entry, 'request': request, 'response': response}


def _no_recording(where: str, why: object) -> ReplayError:
    return ReplayError(f'{where}: this is no recording of planctl: {" ".join(str(why).splitlines()[:2])}')


_LINES: TypeAdapter[dict[str, list[str]]] = TypeAdapter(dict[str, list[str]])


class _ReplayModel(AtOnce, Threaded):
    def __init__(self, recording: Recording, thread: str) -> None:
        super().__init__()
        self._recording = recording
        self._thread = thread

    def thread(self, name: str) -> Model:
        return _ReplayModel(self._recording, name)

    @property
    def model_name(self) -> str:
        return self._recording.name_of(self._thread)

    @property
    def system(self) -> str:
        return 'recording'

    async def answer(
        self, messages: list[ModelMessage], model_request_parameters: ModelRequestParameters
    ) -> ModelResponse:
        asked = _essence(self._thread, messages, model_request_parameters)
        return self._recording.next(self._thread, asked)
