"""The direction of imports, held against the code and against fresh interpreters."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import planctl

ROOT = Path(planctl.__file__).parent

# Each module may import itself and what stands before it. What is not named here belongs to a folder below.
LAYERS = [
    'errors',
    'sanitize',
    'plan',
    'operations',
    'change',
    'working',
    'judgement',
    'mending',
    'settling',
    'readiness',
    'checking',
    'claims',
    'matching',
    'replacement',
    'rules',
    'journal',
    'undo',
    'text',
    'markdown',
    'exchange',
    'editing',
    'reminder',
    'items',
    'core',
    'locate',
]

FOLDERS = {
    # The deprecated emitter and the six methods speak in items; stores never see the rules.
    'stores': {'errors', 'sanitize', 'plan', 'change', 'journal', 'items', 'locate', 'stores'},
    'agent': {*LAYERS, 'stores', 'agent'},
    'cli': {*LAYERS, 'stores', 'cli', 'agent', ''},
    'testing': {*LAYERS, 'stores', 'testing'},
}
DRIVERS = {'aiosqlite', 'sqlite3', 'asyncpg', 'redis'}
PURE = {*LAYERS[: LAYERS.index('rules') + 1]}


def imports_of(path: Path) -> set[str]:
    """Return the modules that a file imports, at any depth, those for type checkers only left out."""
    tree = ast.parse(path.read_text('utf-8'))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and 'TYPE_CHECKING' in ast.unparse(node.test):
            node.body = [ast.Pass()]
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f'{node.module}.{alias.name}' for alias in node.names if node.module == 'planctl'}
    return found


def own_part(module: str) -> str:
    """Return the part of `planctl` that a dotted name belongs to: a module of the top level or a folder."""
    return module.split('.')[1] if '.' in module else ''


MODULES = sorted(path for path in ROOT.rglob('*.py') if path.name not in ('__init__.py', '__main__.py'))


@pytest.mark.parametrize('path', MODULES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_imports_point_one_way(path: Path) -> None:
    used = imports_of(path)
    relative = path.relative_to(ROOT)
    ours = {own_part(name) for name in used if name == 'planctl' or name.startswith('planctl.')}
    if len(relative.parts) == 1:
        name = relative.stem
        assert name in LAYERS, f'{name} has no place in the order of layers'
        allowed = {*LAYERS[: LAYERS.index(name) + 1], '', 'stores'}
        if name not in ('core', 'locate'):
            allowed -= {'stores'}
    else:
        allowed = FOLDERS[relative.parts[0]] | {''}
    assert not ours - allowed


@pytest.mark.parametrize('path', MODULES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_each_outside_package_has_one_home(path: Path) -> None:
    top = {name.split('.')[0] for name in imports_of(path)}
    folder = path.relative_to(ROOT).parts[0]
    if folder not in ('stores', 'testing') and path.stem != 'locate':
        assert not top & DRIVERS
    if folder != 'agent' and not (folder == 'cli' and path.stem in ('run', 'live')):
        assert not top & {'pydantic_ai', 'pydantic_ai_harness'}
    if folder != 'cli':
        assert not top & {'typer', 'rich'}
    if path.stem in PURE and folder == path.name:
        outside = {name for name in top if name not in sys.stdlib_module_names and name != 'planctl'}
        assert not outside | (top & {'time', 'asyncio', 'socket', 'random', 'os'})


def test_no_module_has_two_jobs() -> None:
    long = {p.relative_to(ROOT).as_posix(): n for p in MODULES if (n := len(p.read_text('utf-8').splitlines())) > 350}
    assert long == {}


def test_public_names_are_what_can_be_imported() -> None:
    for name in planctl.__all__:
        assert getattr(planctl, name) is not None
    assert set(planctl.__all__) <= set(dir(planctl))
    with pytest.raises(AttributeError, match='no attribute'):
        _ = planctl.nothing  # type: ignore[attr-defined]


def loaded_after(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, '-c', f'{code}\nimport sys; print(*sys.modules, file=sys.stderr)'],
        capture_output=True,
        text=True,
        check=True,
    )
    return {name.split('.')[0] for name in done.stderr.splitlines()[-1].split()}


@pytest.mark.parametrize(
    'code',
    [
        'import planctl',
        'from planctl import Plan, TaskStatus, apply, InMemoryPlanStore',
        'from planctl import PlanctlError, BaseStore, PlanStore',
        'import planctl.rules, planctl.journal, planctl.text, planctl.locate, planctl.reminder',
        'import planctl.stores.sqlite_file',
    ],
)
def test_what_plan_commands_use_loads_nothing_heavy(code: str) -> None:
    heavy = {'pydantic', 'pydantic_ai', 'httpx', 'asyncpg', 'redis', 'rich', 'typer', 'asyncio', 'aiosqlite'}
    assert not loaded_after(code) & heavy


def test_stores_and_items_do_not_load_pydantic_ai() -> None:
    code = 'from planctl import SqlitePlanStore, PlanItem, PlanEventEmitter, StoreWrapper'
    assert not loaded_after(code) & {'pydantic_ai', 'httpx', 'rich', 'typer', 'asyncpg', 'redis'}
