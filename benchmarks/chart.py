"""A chart with two logarithmic axes as SVG: a few lines of our own in place of a library."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 760, 440
LEFT, RIGHT, TOP, BOTTOM = 70, 40, 56, 56
COLOURS = ("#2f56d6", "#12805c", "#c2410c", "#7c3aed")

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Axis:
    """From one power of ten to another, along so many pixels."""

    low: int
    high: int
    start: float
    end: float

    @classmethod
    def around(cls, values: Sequence[float], start: float, end: float) -> Axis:
        low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        return cls(low, max(high, low + 1), start, end)

    def place(self, value: float) -> float:
        return self.start + (math.log10(value) - self.low) / (self.high - self.low) * (self.end - self.start)

    @property
    def ticks(self) -> list[float]:
        return [10.0**power for power in range(self.low, self.high + 1)]


def draw(title: str, across: str, up: str, lines: Mapping[str, Points]) -> str:
    points = [point for line in lines.values() for point in line]
    x = Axis.around([point[0] for point in points], LEFT, WIDTH - RIGHT)
    y = Axis.around([point[1] for point in points], HEIGHT - BOTTOM, TOP + 22 * len(lines))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
        ' font-family="system-ui, sans-serif" font-size="13" fill="#1f2430">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{LEFT}" y="30" font-size="16" font-weight="600">{escape(title)}</text>',
        *_grid(x, y),
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 14}" text-anchor="middle">{escape(across)}</text>',
        f'<text transform="translate(18 {(y.start + y.end) / 2:.0f}) rotate(-90)" text-anchor="middle">'
        f"{escape(up)}</text>",
        *(_line(place, name, line, x, y) for place, (name, line) in enumerate(lines.items())),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _grid(x: Axis, y: Axis) -> list[str]:
    parts = []
    for tick in x.ticks:
        at = f"{x.place(tick):.1f}"
        parts.append(f'<path d="M{at} {y.start}V{y.end}" stroke="#e3e6ee"/>')
        parts.append(f'<text x="{at}" y="{y.start + 20}" text-anchor="middle">{_number(tick)}</text>')
    for tick in y.ticks:
        at = f"{y.place(tick):.1f}"
        parts.append(f'<path d="M{x.start} {at}H{x.end}" stroke="#e3e6ee"/>')
        parts.append(f'<text x="{x.start - 8}" y="{at}" dy="4" text-anchor="end">{_number(tick)}</text>')
    return parts


def _line(place: int, name: str, line: Points, x: Axis, y: Axis) -> str:
    """The line, its points, and its name above the chart."""
    colour = COLOURS[place % len(COLOURS)]
    spots = [(x.place(one), y.place(two)) for one, two in line]
    path = "L".join(f"{one:.1f} {two:.1f}" for one, two in spots)
    dots = "".join(f'<circle cx="{one:.1f}" cy="{two:.1f}" r="3.5"/>' for one, two in spots)
    level = TOP + 22 * place
    return (
        f'<g fill="{colour}"><path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>{dots}'
        f'<circle cx="{LEFT + 6}" cy="{level - 4}" r="5"/></g><text x="{LEFT + 20}" y="{level}">{escape(name)}</text>'
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"
