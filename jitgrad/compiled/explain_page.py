"""The page of an explanation: one HTML file with a drawing of the step.

Owns: ``page``.
Must not know: how costs are found.
In: an ``Explanation``. Out: HTML with nothing outside it.
"""

from __future__ import annotations

import html
from typing import Any

from jitgrad.report.units import time_text
from jitgrad.tracer.recording.graph import segment_text

__all__ = ["page"]

_WIDTH, _ROW, _LEFT = 900, 30, 10
_STYLE = (
    "body { font-family: sans-serif; margin: 2em; } table { border-collapse: collapse; margin: 1em 0; } "
    "th, td { padding: 0.2em 0.6em; border-bottom: 1px solid #ccc; text-align: left; } caption { text-align: left; } "
    "pre { background: #f5f5f5; padding: 1em; overflow-x: auto; } svg text { font-size: 12px; }"
)


def page(explanation: Any) -> str:
    """The whole document."""
    name = html.escape(explanation.name)
    sentences = "".join(f"<li>{html.escape(line)}</li>" for line in explanation.summary())
    parts = [
        f'<!doctype html><html><head><meta charset="utf-8"><title>{name}</title><style>{_STYLE}</style></head><body>',
        f"<h1>{name}</h1>",
        f"<ul>{sentences}</ul>" if sentences else "",
        _drawing(explanation.segments),
    ]
    for nr, segment in enumerate(explanation.segments):
        borders = "".join(f"<li>{html.escape(line)}</li>" for line in segment.borders())
        parts += [
            f"<h2>Segment {nr}</h2><p>Ended by: {html.escape(segment.ended_by)}</p>",
            segment.table().to_html() if segment.costs else "<p>It runs operation by operation.</p>",
            f"<ul>{borders}</ul>" if borders else "",
            f"<details><summary>Operations</summary><pre>{html.escape(segment_text(segment.segment))}</pre></details>",
        ]
    parts.append("</body></html>\n")
    return "".join(parts)


def _drawing(segments: list[Any]) -> str:
    """A row per kernel, in order; its bar begins where the one before ends, as long as its measured time."""
    rows = [(nr, cost) for nr, segment in enumerate(segments) for cost in segment.costs]
    total = sum(cost.measured_s for _, cost in rows) or 1.0
    shapes: list[str] = []
    at, y, last = 0.0, 0, -1
    for nr, cost in rows:
        if nr != last:
            y += _ROW
            shapes.append(f'<text x="{_LEFT}" y="{y - 8}" font-weight="bold">segment {nr}</text>')
            last = nr
        x = _LEFT + at / total * _WIDTH
        width = max(2.0, cost.measured_s / total * _WIDTH)
        label = html.escape(f"{cost.form}: {' '.join(cost.does)} ({time_text(cost.measured_s)})")
        color = "#d98c5f" if cost.form.startswith("matmul") else "#5f8dd3"
        side = ("start", x + 4) if x < _WIDTH / 2 else ("end", x + width - 4)
        shapes.append(
            f'<g><title>{html.escape("; ".join(cost.lines))}</title><rect x="{x:.1f}" y="{y}" width="{width:.1f}" '
            f'height="{_ROW - 6}" fill="{color}" fill-opacity="0.6"/>'
            f'<text x="{side[1]:.1f}" y="{y + 16}" text-anchor="{side[0]}">{label}</text></g>'
        )
        at += cost.measured_s
        y += _ROW
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH + 2 * _LEFT}" height="{y + _ROW}" role="img">'
        f"{''.join(shapes)}</svg>"
    )
