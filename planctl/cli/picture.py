"""A picture of a plan as SVG or HTML, by Rich's own export. Text is escaped there; nothing in it can run."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Literal

from rich.cells import cell_len
from rich.console import Console

from planctl.cli.view import PlanView
from planctl.plan import Plan, Step
from planctl.sanitize import shown
from planctl.text import tree_order

_WIDEST = 110
# Characters that no XML may hold, not even escaped.
_NO_XML = re.compile('[\ufffe\uffff]')

_HTML = """\
<!DOCTYPE html>
<html>
<head>
<meta charset="utf-8">
<title>planctl</title>
<style>
body {{ color: {foreground}; background-color: {background}; }}
pre {{ font-family: Menlo, 'DejaVu Sans Mono', Consolas, 'Courier New', monospace; }}
{stylesheet}
</style>
</head>
<body>
<pre><code>{code}</code></pre>
</body>
</html>
"""


def picture(plan: Plan, steps: Sequence[Step], how: Literal['svg', 'html'], *, now: float) -> str:
    """Return the plan as it is shown on a terminal, as a document of its own. `now` is in seconds since the epoch."""
    rows = tree_order(steps)
    needed = max((depth * 2 + cell_len(shown(step.content)) + 40 for depth, step in rows), default=0)
    console = Console(
        file=io.StringIO(),
        record=True,
        force_terminal=True,
        color_system='truecolor',
        legacy_windows=False,
        width=max(60, min(_WIDEST, needed)),
        highlight=False,
        markup=False,
        emoji=False,
    )
    console.print(PlanView(plan, now, rows))
    if how == 'svg':
        text = console.export_svg(title=f'planctl · {shown(plan.session)}')
        # Rich would have the reader's browser fetch a font from elsewhere.
        head, end, body = text.partition('</style>')
        text = re.sub(r'@font-face \{.*?\}\s*', '', head, flags=re.DOTALL) + end + body
    else:
        text = console.export_html(code_format=_HTML)
    return _NO_XML.sub('\ufffd', text).rstrip('\n') + '\n'
