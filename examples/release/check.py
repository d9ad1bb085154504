"""The checks of the release checklist that are more than one command. Each ends with 0, or says why not."""

from __future__ import annotations

import platform
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# What is released is this checkout, whatever is installed.
sys.path.insert(0, str(ROOT))

from planctl import __version__  # noqa: E402

REPORT = ROOT / 'build' / 'release-report.md'


def versions() -> None:
    """The sources, the command and, where planctl is installed, its metadata name one version."""
    said = subprocess.run(
        [sys.executable, '-m', 'planctl', '--version'], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()[-1]
    found = {'planctl/__init__.py': __version__, 'planctl --version': said}
    try:
        found['the installed package'] = version('planctl')
    except PackageNotFoundError:
        print('planctl runs from its sources: there is no installed package to compare')
    if len(set(found.values())) > 1:
        sys.exit('the versions differ: ' + ', '.join(f'{where} {what}' for where, what in found.items()))
    print(f'{__version__} everywhere')


def agents() -> None:
    """Every agent file of this repository can be loaded, with the offline model in the place of its own."""
    from planctl.agent.spec import load_agent
    from planctl.errors import AgentError

    files = [ROOT / 'agent.yaml', *sorted((ROOT / 'examples').glob('*/agent.yaml'))]
    for file in files:
        try:
            load_agent(str(file), model='offline', folder=ROOT)
        except AgentError as error:
            sys.exit(error.message)
    print(f'{len(files)} agent files are valid')


def report() -> None:
    """Write what was looked at, and on what, into the report."""
    modules = sum(1 for _ in (ROOT / 'planctl').rglob('*.py'))
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(
        f'# planctl {__version__}\n\n'
        f'- checked on {time.strftime("%Y-%m-%d %H:%M", time.gmtime())} UTC\n'
        f'- Python {platform.python_version()} on {platform.system()} {platform.machine()}\n'
        f'- {modules} modules compile, versions and agent files agree, the tests of the rules pass\n',
        encoding='utf-8',
    )
    print(REPORT.relative_to(ROOT))


if __name__ == '__main__':
    checks = {'versions': versions, 'agents': agents, 'report': report}
    if len(sys.argv) != 2 or sys.argv[1] not in checks:
        sys.exit(f'usage: check.py {"|".join(checks)}')
    checks[sys.argv[1]]()
