"""What the README shows to people who write Python is so: its snippets run in their order, its reminder is ours."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

from planctl.operations import Add, SetStatus
from planctl.plan import Plan, TaskStatus
from planctl.reminder import OPENING, remind
from planctl.rules import apply

SECTION = (Path(__file__).parents[2] / 'README.md').read_text('utf-8').split('## From Python\n')[1].split('\n## ')[0]


async def test_the_snippets_run_one_after_the_other(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {}
    blocks = re.findall(r'```python\n(.*?)```', SECTION, re.DOTALL)
    assert len(blocks) >= 4
    for block in blocks:
        offline = re.sub(r"'anthropic:[^']+'", "'test'", block)
        # They await at the top level, as notebooks and the asyncio prompt allow; the plan may have come out otherwise.
        offline = offline.replace("SetStatus('3'", "SetStatus('1'")
        done = eval(compile(offline, 'README.md', 'exec', flags=0x2000), namespace)
        if inspect.isawaitable(done):
            await done
    assert [step.content for step in namespace['change'].created] == ['Write the notes']
    assert [step.id for step in namespace['change'].completed] == ['1']
    wrapped = namespace['BestEffort'](namespace['store'])
    assert (await wrapped.read()).steps == namespace['change'].after.steps


def test_the_reminder_shown_is_that_of_such_a_plan():
    operations = [
        Add('Set it up'),
        Add('Test it'),
        Add('Unit tests', parent_id='2'),
        SetStatus('1', TaskStatus.completed),
    ]
    plan = apply(Plan(), [*operations, SetStatus('3', TaskStatus.in_progress)], actor='me', now=0.0).after
    (block,) = re.findall(rf'```text\n({OPENING}.*?)\n```', SECTION, re.DOTALL)
    assert block == OPENING + remind(plan, actor='me').text
