"""Line pictures as SVG: panels below one another, linear or logarithmic axes, a legend."""

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

WIDTH, HEIGHT = 760, 220
LEFT, RIGHT, TOP, BOTTOM = 70, 190, 34, 40
COLOURS = ("#084594", "#d94801", "#238b45", "#6a51a3", "#737373", "#c51b8a", "#8c6d31")


class Line(NamedTuple):
    """Points by x."""

    name: str
    points: Sequence[tuple[float, float]]


class Panel(NamedTuple):
    """One pair of axes. `shades` are spans of x that are marked; `marks` are dotted lines: x, and
    the number of the line whose colour it has."""

    title: str
    x: str
    y: str
    lines: Sequence[Line]
    logarithmic: bool = False
    shades: Sequence[tuple[float, float]] = ()
    marks: Sequence[tuple[float, int]] = ()


class _Axis:
    def __init__(self, values: Sequence[float], logarithmic: bool, start: int, length: int) -> None:
        self._log, self._start, self._length = logarithmic, start, length
        shown = [each for each in values if each > 0] if logarithmic else [0.0, *values]
        low, high = min(shown, default=0.1), max(shown, default=1.0)
        if logarithmic:
            low, high = 10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high))
        self.low, self.high = low, high if high > low else low + 1

    def place(self, value: float) -> float:
        if self._log:
            value = max(value, self.low)
            share = math.log10(value / self.low) / math.log10(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self._start + share * self._length

    def ticks(self) -> list[float]:
        if self._log:
            count = round(math.log10(self.high / self.low))
            return [self.low * 10**n for n in range(count + 1)]
        step = 10 ** math.floor(math.log10((self.high - self.low) / 2))
        while (self.high - self.low) / step > 6:
            step *= 2 if str(step).lstrip("0.")[0] == "1" else 2.5
        first = math.ceil(self.low / step)
        return [n * step for n in range(first, math.floor(self.high / step) + 1)]


def _text(value: float) -> str:
    if value >= 1e6:
        return f"{value / 1e6:g} M"
    return f"{value:,.0f}" if value >= 10 else f"{value:g}"


def _panel(panel: Panel, top: int) -> list[str]:
    xs = [x for line in panel.lines for x, _ in line.points]
    ys = [y for line in panel.lines for _, y in line.points]
    across = _Axis(xs, panel.logarithmic, LEFT, WIDTH - LEFT - RIGHT)
    base = top + TOP + HEIGHT
    up = _Axis(ys, panel.logarithmic, base, -HEIGHT)
    end = WIDTH - RIGHT
    drawn = [f'<text x="{LEFT}" y="{top + 20}" font-weight="bold">{escape(panel.title)}</text>']
    for since, until in panel.shades:
        left, right = across.place(since), across.place(until)
        drawn.append(
            f'<rect x="{left:.1f}" y="{top + TOP}" width="{max(0.5, right - left):.1f}" '
            f'height="{HEIGHT}" fill="#eeeeee"/>'
        )
    for value in across.ticks():
        x = across.place(value)
        drawn.append(f'<path d="M{x:.1f} {base}v4" stroke="#888"/>')
        drawn.append(
            f'<text x="{x:.1f}" y="{base + 16}" text-anchor="middle">{_text(value)}</text>'
        )
    for value in up.ticks():
        y = up.place(value)
        drawn.append(f'<path d="M{LEFT} {y:.1f}H{end}" stroke="#ddd"/>')
        drawn.append(
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_text(value)}</text>'
        )
    for value, number in panel.marks:
        colour = COLOURS[number % len(COLOURS)]
        drawn.append(
            f'<path d="M{across.place(value):.1f} {base}v{-HEIGHT}" stroke="{colour}" '
            'stroke-dasharray="2 3"/>'
        )
    middle = (LEFT + end) / 2
    drawn.append(
        f'<text x="{middle}" y="{base + 32}" text-anchor="middle">{escape(panel.x)}</text>'
        f'<text transform="translate(14 {base - HEIGHT / 2}) rotate(-90)" text-anchor="middle">'
        f"{escape(panel.y)}</text>"
    )
    for n, line in enumerate(panel.lines):
        colour = COLOURS[n % len(COLOURS)]
        placed = [(across.place(x), up.place(y)) for x, y in line.points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        drawn.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>'
        )
        if len(placed) <= 20:
            drawn += [
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>' for x, y in placed
            ]
        y = top + TOP + 12 + 16 * n
        drawn.append(f'<path d="M{end + 12} {y - 4}h16" stroke="{colour}" stroke-width="2"/>')
        drawn.append(f'<text x="{end + 32}" y="{y}">{escape(line.name)}</text>')
    return drawn


def draw(path: Path, panels: Sequence[Panel]) -> None:
    """Write the picture."""
    each = TOP + HEIGHT + BOTTOM + 10
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{each * len(panels)}" '
        'font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for n, panel in enumerate(panels):
        lines += _panel(panel, n * each)
    path.write_text("\n".join([*lines, "</svg>", ""]))
