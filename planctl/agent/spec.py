"""Agents from a YAML or JSON file, or from a Python module: found, checked and built. Nothing here runs one."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from planctl.agent.entries import Entries, check_settings, choice, taken_at
from planctl.agent.models import OFFLINE, model_of, one_line
from planctl.agent.nearest import AGENT_FILE, nearest_agent_file
from planctl.agent.specfile import Route, SpecFile, read_spec_file
from planctl.errors import PlanctlError, SpecError

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_ai.agent import AbstractAgent
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.models import Model

    from planctl.agent.mcp import Servers

_MODULE = re.compile(r'[A-Za-z_][\w.]*:[A-Za-z_]\w*')
_INSTANTIATING = re.compile(r"^Failed to instantiate capability '([^']*)': ")
_SUFFIXES = ('.yaml', '.yml', '.json')


@dataclass(frozen=True, slots=True)
class LoadedAgent:
    """An agent, what it is called in messages, and the model that its file names or that it was built with."""

    agent: AbstractAgent[Any, Any]
    label: str
    model: Model | None
    path: Path | None = None
    """The file that it is from, if it is from one."""
    servers: Servers | None = None
    """The MCP servers whose tools it has beside its own."""

    def server_tools(self) -> list[AbstractCapability[Any]]:
        """Return what gives it the tools of its servers for a run."""
        return [] if self.servers is None else self.servers.capabilities()

    def model_for(self, override: str | None, *, option: str) -> Model:
        """Return the model of a phase: the one that `option` names, else the agent's. Raises `AgentError`."""
        if override is not None:
            return model_of(override, where=option)
        if self.model is None:
            raise SpecError(
                f'{self.label}: no model: neither `model:` in it nor --model', hint=f'`--model {OFFLINE}` needs no key'
            )
        return self.model


def load_agent(given: str | None, *, model: str | None, folder: Path, option: str = '--agent') -> LoadedAgent:
    """Return the agent that `given` names (a file or `module:variable`), else the nearest agent file, else a bare one.

    A `model` by name beats what the file says. `option` is where `given` comes from, for messages. Raises `SpecError`,
    `ExtraMissing` and `ModelError`, each with one line that names the file and the key.
    """
    if given is not None and not given.strip():
        raise SpecError(f'{option}: it is empty', hint='an agent file, or module:variable')
    override = None if model is None else model_of(model, where='--model')
    if given is not None and not given.lower().endswith(_SUFFIXES):
        if _MODULE.fullmatch(given):
            return _from_module(given, override, folder, f'{option} {given}')
        if (meant := _in_python(given)) is not None:
            raise SpecError(f'{option} {given}: an agent in Python is named module:variable', hint=meant)
    path = nearest_agent_file(folder) if given is None else folder / given
    if path is None:
        if override is None:
            raise SpecError(
                f'no model: there is no {AGENT_FILE} here and no --model', hint='`--model offline` needs no key'
            )
        from pydantic_ai import Agent

        return LoadedAgent(Agent(override, name='planctl'), f'model {model}', override)
    return _from_file(path, override, shown_path(path, folder))


def _in_python(given: str) -> str | None:
    """Return how the agent may be named that is meant by the path of a Python file; `None` where it is none."""
    path, colon, variable = given.partition(':')
    if not colon and not path.endswith('.py'):
        return None
    where, _, name = path.removesuffix('.py').removeprefix('./').rpartition('/')
    is_below = not where.startswith(('/', '..'))
    module = f'{where}/{name}'.lstrip('/').replace('/', '.') if is_below else name
    named = f'{module}:{variable or "agent"}'
    if not _MODULE.fullmatch(named):
        return None
    return f'for example {named}' if is_below else f'for example {named}, in {where}'


def shown_path(path: Path, folder: Path) -> str:
    """Return the path as a person in `folder` would write it."""
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path)


# --- Python ---------------------------------------------------------------------------------------------------------


def _from_module(given: str, override: Model | None, folder: Path, label: str) -> LoadedAgent:
    from pydantic_ai.agent import AbstractAgent

    module_name, _, variable = given.partition(':')
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name == module_name or module_name.startswith(f'{error.name}.'):
            meant = _in_python(given) if module_name.endswith('.py') else None
            raise SpecError(f'{label}: there is no module {module_name!r} here', hint=meant) from error
        raise SpecError(f'{label}: {one_line(error)}') from error
    except PlanctlError:
        raise
    except SystemExit as error:
        raise SpecError(f'{label}: the module ended the process: sys.exit({error.code!r})') from error
    except Exception as error:
        raise SpecError(f'{label}: {type(error).__name__}: {one_line(error)}') from error
    agent = getattr(module, variable, None)
    if agent is None:
        names = [name for name, value in vars(module).items() if isinstance(value, AbstractAgent)]
        raise SpecError(f'{label}: the module has no {variable!r}{choice(variable, names)}')
    if not isinstance(agent, AbstractAgent):
        raise SpecError(f'{label}: {variable!r} is a {type(agent).__name__}, not an agent')
    loaded = cast('AbstractAgent[Any, Any]', agent)
    # An agent that says nothing of deps has `object`, one from a file NoneType.
    if loaded.deps_type not in (object, type(None)):
        raise SpecError(
            f'{label}: the agent needs deps ({loaded.deps_type.__name__}), which a command line cannot give'
        )
    own = loaded.model
    if override is None and isinstance(own, str):
        own = model_of(own, where=label)
    model = override or cast('Model | None', own)
    return LoadedAgent(loaded, given, model)


# --- Files ----------------------------------------------------------------------------------------------------------


def _from_file(path: Path, override: Model | None, label: str) -> LoadedAgent:
    from pydantic import ValidationError
    from pydantic_ai import Agent
    from pydantic_ai.agent.spec import AgentSpec

    file = read_spec_file(path, label, taken=taken_at)
    data = file.data
    known = [field.alias or name for name, field in AgentSpec.model_fields.items()]
    for key in data:
        if key not in known:
            raise file.error(f'unknown key{choice(key, known)}; there are: {", ".join(known)}', (key,))
    if data.get('deps_schema') is not None:
        raise file.error('an agent that needs deps cannot be run from a command line', ('deps_schema',))
    entries = Entries(file, path.parent)
    data['capabilities'] = entries.check(data.get('capabilities'))
    check_settings(file, data.get('model_settings'))
    model = override
    if model is None and isinstance(data.get('model'), str):
        model = model_of(data['model'], where=f'{file.at(("model",))}: model')
    try:
        spec = AgentSpec.from_dict(data | {'model': None} if isinstance(data.get('model'), str) else data)
        agent = Agent.from_spec(
            spec, custom_capability_types=entries.custom_types, model=model, name=spec.name or 'planctl'
        )
    except ValidationError as error:
        raise _in_words(file, error) from error
    except PlanctlError:
        raise
    except Exception as error:
        said = one_line(error)
        named = _INSTANTIATING.match(said)
        if named is None:
            raise file.error(said) from error
        raise file.error(said[named.end() :].removeprefix(f'{named[1]}: '), _route_of(data, named[1])) from error
    return LoadedAgent(agent, label, model, path)


def _route_of(data: dict[str, Any], capability: str) -> Route:
    """Return where a file gives the capability of this name; nowhere in particular when it is not there once."""
    names = [entry if isinstance(entry, str) else next(iter(entry)) for entry in data['capabilities']]
    return ('capabilities', names.index(capability), capability) if names.count(capability) == 1 else ()


def _in_words(file: SpecFile, error: ValidationError) -> SpecError:
    """Return what pydantic says of a file: of a key that takes several kinds of values, all that it takes."""
    errors = error.errors(include_url=False)
    key = errors[0]['loc'][:1]
    said = dict.fromkeys(f'{e["msg"][0].lower()}{e["msg"][1:]}' for e in errors if e['loc'][:1] == key)
    return file.error(', or '.join(said), [part for part in key if isinstance(part, str)])
