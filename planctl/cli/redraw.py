"""What is redrawn in place on a terminal, by Rich."""

from __future__ import annotations

from typing import Any

from rich.control import Control
from rich.live import Live
from rich.segment import ControlType, Segment


class Redrawn(Live):
    """A `Live` that finds its lines again when the terminal became narrower and wrapped them, as nearly all do."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._width = 0
        """How wide the terminal was when it was drawn last; 0 when it was not yet."""

    def refresh(self) -> None:
        """Draw it in the place of what was drawn before."""
        with self._lock:
            before, self._width = self._width, self.console.width
            if self._width < before:
                options = self.console.options.update(width=before)
                lines = self.console.render_lines(self._live_render.renderable, options, pad=False)
                wrapped = sum(max(0, Segment.get_line_length(line) - 1) // self._width for line in lines)
                up = ((ControlType.ERASE_IN_LINE, 2), (ControlType.CURSOR_UP, 1))
                self.console.control(Control(*up * wrapped))
            super().refresh()
