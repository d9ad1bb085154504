"""The garbage collector is off while a command imports, and on again in one that lives long."""

from __future__ import annotations

from pathlib import Path

from cli_helpers import fill, process

AGENT = """
import gc

from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel

imported = gc.isenabled()


def answer(messages, info):
    open('collector', 'w').write(f'{imported} {gc.isenabled()} {gc.get_freeze_count() > 100_000}')
    return ModelResponse(parts=[TextPart('done')])


agent = Agent(FunctionModel(answer))
"""


def test_a_run_imports_without_the_collector_and_works_with_it(folder: Path) -> None:
    fill(folder / 'plan.db', 'One')
    (folder / 'steady.py').write_text(AGENT)
    process('run', '--agent', 'steady:agent', '--max-nudges', '0', cwd=folder)
    assert (folder / 'collector').read_text() == 'False True True'
