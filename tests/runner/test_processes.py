"""Runs that are cut off: by a person, by the system, by `kill -9`; and two at once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from process_helpers import AGENT, Zygote, environment, plan_in, planctl, started, under_way, until
from runner_helpers import write

from planctl.plan import TaskStatus

CHECKLIST = """\
1. Begin `echo first >> log`
2. Take long `test -e go || exec sleep 60`
3. End `echo last >> log` (depends on: 2)
"""
WORDS = (CHECKLIST, '--plan-first', '--agent', 'agents:agent')
AGAIN = ('run', '--agent', 'agents:agent')


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, 'agents.py', AGENT)
    return tmp_path


@pytest.mark.parametrize(
    ('number', 'status', 'reason'), [(signal.SIGINT, 130, 'interrupted'), (signal.SIGTERM, 143, 'terminated')]
)
def test_a_signal_ends_the_run_gives_back_the_step_and_the_next_run_goes_on(
    folder: Path, number: int, status: int, reason: str
) -> None:
    with started(folder, *WORDS, '--json') as process:
        until(under_way(folder, '2'))
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert process.returncode == status
    document = json.loads(out)
    assert document['stop_reason'] == reason
    assert [step['id'] for step in document['completed']] == ['1']
    assert document['open'][0] == {
        'id': '2',
        'content': 'Take long `test -e go || exec sleep 60`',
        'status': 'pending',
        'note': 'interrupted',
        'waits_for': [],
    }
    assert 'Traceback' not in err
    assert plan_in(folder).owner is None
    assert not list(folder.glob('plan.db-*'))
    write(folder, 'go', '')
    again = planctl(folder, *AGAIN)
    assert again.returncode == 0, again.stderr
    assert (folder / 'log').read_text().split() == ['first', 'last']


def test_a_tool_that_blocks_its_thread_does_not_keep_an_interrupted_run(folder: Path) -> None:
    with started(folder, '1. a `anything`', '--plan-first', '--agent', 'agents:blocked', '--json') as process:
        until((folder / 'blocking').exists)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=20)
    assert (process.returncode, json.loads(out)['stop_reason']) == (130, 'interrupted')
    assert plan_in(folder).step('1').note == 'interrupted'


def test_a_tool_that_blocks_its_thread_does_not_keep_a_run_whose_time_is_over(folder: Path) -> None:
    words = ('1. a `anything`', '--plan-first', '--agent', 'agents:blocked', '--timeout', '2s', '--json')
    with started(folder, *words) as process:
        out, _ = process.communicate(timeout=40)
    assert (process.returncode, json.loads(out)['limit']) == (6, 'timeout')
    assert plan_in(folder).step('1').note == 'interrupted'


def test_a_run_inside_of_another_program_ends_no_more_than_itself(folder: Path) -> None:
    # The program has a thread of its own, for which nobody but the program waits.
    program = """
import threading, sys
from planctl.cli.app import run
done = threading.Event()
threading.Thread(target=done.wait).start()
try:
    status = run(sys.argv[1:])
finally:
    done.set()
print('went on with', status)
"""
    words = ('run', '1. a `exec sleep 60`', '--plan-first', '--agent', 'agents:agent', '--timeout', '2s', '--quiet')
    ended = subprocess.run(
        [sys.executable, '-c', program, *words],
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ended.returncode, ended.stdout.splitlines()[-1]) == (0, 'went on with 6'), ended.stderr


def test_a_second_signal_ends_the_process_at_once(folder: Path) -> None:
    with started(folder, '1. a `anything`', '--plan-first', '--agent', 'agents:hung') as process:
        until((folder / 'blocking').exists)
        process.send_signal(signal.SIGINT)
        # The tool does not let go, so the run waits for it.
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=10)
    assert process.returncode == 130
    assert err.splitlines()[-1] == (
        'planctl: interrupted at once; what was in progress is given back by the next `planctl run`'
    )
    plan = plan_in(folder)
    assert plan.step('1').status is TaskStatus.in_progress
    again = planctl(folder, *AGAIN, '--max-requests', '1', '--json')
    assert json.loads(again.stdout)['open'][0]['status'] == 'pending'
    assert 'taking over from run' in again.stderr


def test_an_interruption_before_the_run_ends_it_whatever_it_comes_in_the_middle_of(folder: Path) -> None:
    # An exception that comes out of a finalizer is lost.
    unlucky = 'import os\nclass Unlucky:\n    def __del__(self):\n        os.kill(os.getpid(), 2)\nUnlucky()\n'
    write(folder, 'unlucky.py', unlucky + AGENT)
    done = planctl(folder, 'run', 'x', '--agent', 'unlucky:agent')
    assert (done.returncode, done.stdout, done.stderr) == (130, '', '')
    assert not (folder / 'plan.db').exists()


def test_kill_9_and_the_next_run_takes_over_at_once(folder: Path) -> None:
    with started(folder, *WORDS) as process:
        until(under_way(folder, '2'))
        process.kill()
        process.wait()
        assert plan_in(folder).step('2').status is TaskStatus.in_progress
        write(folder, 'go', '')
        again = planctl(folder, *AGAIN, '--json')
    assert again.returncode == 0, again.stderr
    assert 'taking over from run' in again.stderr
    assert [step['id'] for step in json.loads(again.stdout)['completed']] == ['2', '3']
    assert (folder / 'log').read_text().split() == ['first', 'last']


def test_kill_9_at_any_moment_loses_nothing_and_does_nothing_twice(folder: Path) -> None:
    count, kills, pick = 70, 30, random.Random(7)
    # The sign is given when the command begins: a command that its run did not live to see writes nothing later.
    checklist = '\n'.join(f'{at}. step `echo {at} >> log; sleep 0.01`' for at in range(1, count + 1))
    planned = planctl(folder, 'run', checklist, '--plan-only', '--agent', 'agents:agent')
    assert planned.returncode == 0, planned.stderr

    def begun() -> Counter[str]:
        return Counter((folder / 'log').read_text().split()) if (folder / 'log').exists() else Counter()

    done: dict[str, int] = {}
    moments: Counter[str] = Counter()
    events = folder / 'events.jsonl'
    with Zygote(folder) as zygote:
        for _ in range(kills):
            events.unlink(missing_ok=True)
            pid = zygote.start(*AGAIN, '--events', 'events.jsonl')
            # At any event of the first few steps, or a little after; before the first one as well.
            moment = pick.randint(0, 20)
            until(lambda moment=moment: moment == 0 or _lines(events) >= moment)  # type: ignore[misc]
            time.sleep(pick.uniform(0.0, 0.01))
            os.kill(pid, signal.SIGKILL)
            assert zygote.status() == -signal.SIGKILL
            plan, log = plan_in(folder), begun()
            moments['held' if plan.owner else 'free'] += 1
            moments['in a step' if plan.progress.in_progress else 'between'] += 1
            assert plan.progress.total == count
            for step in plan.steps:
                if step.resolved:
                    assert done.setdefault(step.id, log[step.id]) == log[step.id], f'step {step.id} was done again'
                else:
                    assert step.id not in done, f'step {step.id} was lost'
        assert 0 < len(done) < count, 'it was not cut off in the middle'
        assert moments['in a step'], moments
        assert moments['between'], moments
        zygote.start(*AGAIN)
        assert zygote.status() == 0
    plan, log = plan_in(folder), begun()
    assert (plan.progress.completed, plan.owner) == (count, None)
    assert {step_id: log[step_id] for step_id in done} == done
    # A step that was cut off between its command and its tick is run again, once for each time.
    assert sum(log.values()) <= count + kills
    assert len(log) == count


def _lines(file: Path) -> int:
    return file.read_bytes().count(b'\n') if file.exists() else 0


def test_two_runs_on_one_session(folder: Path) -> None:
    with started(folder, *WORDS) as process:
        until(under_way(folder, '2'))
        second = planctl(folder, *AGAIN)
        assert second.returncode == 4
        assert second.stdout == ''
        assert "another run works on session 'default': run " in second.stderr
        assert f'process {process.pid} on' in second.stderr
        other = planctl(folder, 'run', '1. a', '--plan-first', '--session', 'other', '--agent', 'agents:agent')
        assert other.returncode == 0, other.stderr
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert process.returncode == 130


def test_what_a_person_does_meanwhile_counts(folder: Path) -> None:
    with started(folder, *WORDS) as process:
        until(under_way(folder, '2'))
        assert planctl(folder, 'add', 'by hand').returncode == 0
        assert planctl(folder, 'cancel', '3').returncode == 0
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    write(folder, 'go', '')
    assert planctl(folder, *AGAIN).returncode == 0
    assert [(step.id, step.status.value) for step in plan_in(folder).steps] == [
        ('1', 'completed'),
        ('2', 'completed'),
        ('3', 'cancelled'),
        ('4', 'completed'),
    ]


# --- What a run costs to start --------------------------------------------------------------------------------------

LOADED = """
import sys
from planctl.cli.app import run
status = run({words!r})
print(status, *sorted(name for name in sys.modules if '.' not in name), file=sys.stderr)
"""


def loaded(folder: Path, *words: str) -> tuple[str, set[str]]:
    done = subprocess.run(
        [sys.executable, '-c', LOADED.format(words=list(words))],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    status, *names = done.stderr.splitlines()[-1].split()
    return status, set(names)


def test_a_run_imports_no_provider_that_it_does_not_use(tmp_path: Path) -> None:
    status, names = loaded(tmp_path, 'run', '1. a', '--plan-first', '--model', 'offline')
    assert status == '0'
    assert 'pydantic_ai' in names
    assert not names & {'openai', 'anthropic', 'google', 'groq', 'mistralai', 'boto3', 'pydantic_ai_harness'}


def test_what_is_wrong_with_the_words_is_said_without_importing_an_agent(tmp_path: Path) -> None:
    for words in (['run', ''], ['run'], ['run', '--help']):
        _, names = loaded(tmp_path, *words)
        assert not names & {'pydantic_ai', 'pydantic', 'openai', 'anthropic'}, words
