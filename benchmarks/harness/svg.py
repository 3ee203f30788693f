"""Small charts as SVG text: line charts and bar charts with axes, titles and units.

Every chart has a white ground of its own, so that it reads the same on a light
page and on a dark one. Every point and bar carries its numbers as ``data-``
attributes and as a tooltip. It knows nothing of benchmarks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from xml.sax.saxutils import escape, quoteattr

INK, FAINT, RULE = "#1f2328", "#59636e", "#d9dee3"
WIDTH = 760
_FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
_GAP = 15  # pixels between two labels, at least


@dataclass(frozen=True)
class Line:
    """A line through ``points`` (x, y), labelled at its end."""

    label: str
    points: Sequence[tuple[float, float]]
    colour: str
    thin: bool = False


@dataclass(frozen=True)
class Bar:
    """A bar; one with no ``label`` belongs to the bar above it. ``note`` follows the number at its end."""

    label: str
    value: float
    colour: str
    note: str = ""


@dataclass
class _Canvas:
    height: int
    parts: list[str] = field(default_factory=list)

    def add(self, tag: str, content: str | None = None, **attributes: object) -> None:
        named = " ".join(f"{name.rstrip('_').replace('_', '-')}={quoteattr(str(v))}" for name, v in attributes.items())
        self.parts.append(f"<{tag} {named}/>" if content is None else f"<{tag} {named}>{content}</{tag}>")

    def text(self, x: float, y: float, words: str, size: int = 12, **attributes: object) -> None:
        attributes.setdefault("fill", INK)
        self.add("text", escape(words), x=_px(x), y=_px(y), font_size=size, **attributes)

    def rule(self, x1: float, y1: float, x2: float, y2: float, colour: str = RULE) -> None:
        self.add("line", x1=_px(x1), y1=_px(y1), x2=_px(x2), y2=_px(y2), stroke=colour, stroke_width=1)

    def done(self, title: str) -> str:
        ground = (
            f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{self.height - 1}" rx="6" fill="#ffffff" '
            f'stroke="{RULE}"/>'
        )
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" width="{WIDTH}" '
            f'height="{self.height}" role="img" font-family="{_FONT}">'
        )
        return "\n".join([head, f"<title>{escape(title)}</title>", ground, *self.parts, "</svg>"]) + "\n"


def line_chart(
    title: str, subtitle: str, lines: Sequence[Line], x_title: str, y_title: str, x_ticks: Sequence[float]
) -> str:
    """Both axes logarithmic; ``x_ticks`` are the marks of the x axis, from its first to its last value.

    Raises:
        ValueError: there is no point, or one that a logarithm does not have.
    """
    values = [y for line in lines for _, y in line.points]
    if not values or min(values) <= 0:
        raise ValueError(f"{title}: every point needs a positive value")
    left, top, right, bottom, height = 64, 100, WIDTH - 196, 388, 440
    low, high = _decades(values)
    x_of, y_of = _log_scale(x_ticks[0], x_ticks[-1], left, right), _log_scale(low, high, bottom, top)
    canvas = _Canvas(height)
    _titles(canvas, title, subtitle)
    for tick in _log_ticks(low, high):
        canvas.rule(left, y_of(tick), right, y_of(tick))
        canvas.text(left - 8, y_of(tick) + 4, number(tick), text_anchor="end", fill=FAINT)
    for tick in x_ticks:
        canvas.rule(x_of(tick), bottom, x_of(tick), bottom + 5, FAINT)
        canvas.text(x_of(tick), bottom + 20, number(tick), text_anchor="middle", fill=FAINT)
    canvas.rule(left, bottom, right, bottom, FAINT)
    canvas.text((left + right) / 2, bottom + 42, x_title, text_anchor="middle")
    canvas.text(20, top - 18, y_title)
    for line in lines:
        _draw(canvas, line, x_of, y_of)
    _end_labels(canvas, lines, x_of, y_of, right, bottom)
    return canvas.done(title)


def bar_chart(
    title: str,
    subtitle: str,
    bars: Sequence[Bar],
    unit: str,
    legend: Sequence[tuple[str, str]] = (),
    logarithmic_from: float | None = None,
) -> str:
    """Horizontal bars from the top down; ``legend`` is (colour, words).

    With ``logarithmic_from`` the axis is logarithmic and begins there: dots are drawn then, since the length of a
    bar would mean nothing.

    Raises:
        ValueError: there is no bar.
    """
    if not bars:
        raise ValueError(f"{title}: nothing to draw")
    left, right, top = 236, WIDTH - 120, 72 + 22 * bool(legend)
    places, bottom = _places(bars, top)
    high = max(bar.value for bar in bars)
    canvas = _Canvas(bottom + 58)
    _titles(canvas, title, subtitle)
    if logarithmic_from is None:
        ticks = _even_ticks(high)
        x_of = _scale(0, max(high, ticks[-1]), left, right)
    else:
        first, last = _decades([logarithmic_from, high])
        ticks, x_of = _log_ticks(first, last), _log_scale(first, last, left, right)
    for tick in ticks:
        canvas.rule(x_of(tick), top - 4, x_of(tick), bottom)
        canvas.text(x_of(tick), bottom + 18, number(tick), text_anchor="middle", fill=FAINT)
    canvas.text((left + right) / 2, bottom + 42, unit, text_anchor="middle")
    _legend(canvas, legend)
    for bar, y in zip(bars, places, strict=True):
        numbers = {"data_label": bar.label, "data_value": repr(bar.value)}
        tip = f"<title>{escape(bar.label or bar.note)}: {number(bar.value)}</title>"
        if bar.label:
            canvas.text(left - 10, y + 13, bar.label, size=13, text_anchor="end")
        end = x_of(bar.value)
        if logarithmic_from is None:
            canvas.add(
                "rect", tip, x=left, y=y, width=_px(max(end - left, 1)), height=18, fill=bar.colour, rx=2, **numbers
            )
        else:
            canvas.rule(left, y + 9, end, y + 9, bar.colour)
            canvas.add("circle", tip, cx=_px(end), cy=y + 9, r=6, fill=bar.colour, **numbers)
        beside = end + (6 if logarithmic_from is None else 12)
        # A white rim: the lines of the scale must not run through the number.
        rim: dict[str, Any] = {"stroke": "#ffffff", "stroke_width": 5, "paint_order": "stroke"}
        canvas.text(beside, y + 13, f"{number(bar.value)}{bar.note}", **rim)
    return canvas.done(title)


def number(value: float) -> str:
    """As people write it: three digits that count, thousands set apart."""
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _titles(canvas: _Canvas, title: str, subtitle: str) -> None:
    canvas.text(20, 30, title, size=17, font_weight=600)
    canvas.text(20, 50, subtitle, size=12, fill=FAINT)


def _legend(canvas: _Canvas, legend: Sequence[tuple[str, str]]) -> None:
    x = 20.0
    for colour, words in legend:
        canvas.add("rect", x=_px(x), y=62, width=12, height=12, fill=colour, rx=2)
        canvas.text(x + 18, 72.5, words)
        x += 18 + 6.6 * len(words) + 22


def _places(bars: Sequence[Bar], top: int) -> tuple[list[int], int]:
    """The upper edge of each bar, and the end of the last: those that belong together stand closer."""
    y, found = top - 8, []
    for bar in bars:
        y += 12 if bar.label else 0
        found.append(y)
        y += 20
    return found, y + 6


def _draw(canvas: _Canvas, line: Line, x_of: Callable[[float], float], y_of: Callable[[float], float]) -> None:
    points = " ".join(f"{_px(x_of(x))},{_px(y_of(y))}" for x, y in line.points)
    canvas.add(
        "polyline",
        points=points,
        fill="none",
        stroke=line.colour,
        stroke_width=1.2 if line.thin else 2.6,
        stroke_linejoin="round",
        stroke_opacity=0.55 if line.thin else 1,
    )
    for x, y in line.points:
        canvas.add(
            "circle",
            f"<title>{escape(line.label)}: {number(x)}, {number(y)}</title>",
            cx=_px(x_of(x)),
            cy=_px(y_of(y)),
            r=2.2 if line.thin else 4,
            fill=line.colour,
            fill_opacity=0.6 if line.thin else 1,
            data_series=line.label,
            data_x=repr(x),
            data_y=repr(y),
        )


def _end_labels(
    canvas: _Canvas,
    lines: Sequence[Line],
    x_of: Callable[[float], float],
    y_of: Callable[[float], float],
    right: float,
    lowest: float,
) -> None:
    """A label beside the end of each line, none below ``lowest``, moved apart where two would lie on each other."""
    ends = sorted(((y_of(line.points[-1][1]), line) for line in lines), key=lambda end: end[0])
    for (y, line), place in zip(ends, _apart([y for y, _ in ends], lowest), strict=True):
        near = x_of(line.points[-1][0])
        if abs(place - y) > 2 or near < right - 2:
            canvas.add(
                "line",
                x1=_px(near + 5), y1=_px(y), x2=_px(right + 10), y2=_px(place),
                stroke=line.colour, stroke_width=0.7, stroke_opacity=0.6, stroke_dasharray="1 2",
            )  # fmt: skip
        weight = 400 if line.thin else 600
        canvas.text(right + 14, place + 4, line.label, size=12, fill=line.colour, font_weight=weight)


def _apart(heights: Sequence[float], lowest: float) -> list[float]:
    """The sorted heights, moved so that neighbours are a label apart and the last is not below ``lowest``."""
    places: list[float] = []
    for height in heights:
        places.append(max(height, places[-1] + _GAP) if places else height)
    for at in range(len(places) - 1, -1, -1):
        places[at] = min(places[at], places[at + 1] - _GAP if at + 1 < len(places) else lowest)
    return places


def _scale(low: float, high: float, begin: float, end: float) -> Callable[[float], float]:
    return lambda value: begin + (value - low) / (high - low) * (end - begin)


def _log_scale(low: float, high: float, begin: float, end: float) -> Callable[[float], float]:
    inner = _scale(math.log10(low), math.log10(high), begin, end)
    return lambda value: inner(math.log10(value))


def _decades(values: Sequence[float]) -> tuple[float, float]:
    """A lower and an upper end of 1, 2 or 5 times a power of ten around the values."""
    low, high = min(values), max(values)
    steps = [digit * 10.0**power for power in range(-6, 10) for digit in (1, 2, 5)]
    first = max(step for step in steps if step <= low * 1.001)
    last = min(step for step in steps if step >= high * 0.999 and step > first)
    return first, last


def _log_ticks(low: float, high: float) -> list[float]:
    """1, 2, 5 of each power of ten; of more than three powers only the 1."""
    digits = (1, 2, 5) if high / low <= 200 else (1,)
    ticks = [digit * 10.0**power for power in range(-6, 10) for digit in digits]
    return [tick for tick in ticks if low * 0.999 <= tick <= high * 1.001]


def _even_ticks(high: float) -> list[float]:
    raw = high / 5
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(digit * power for digit in (1, 2, 2.5, 5, 10) if digit * power >= raw * 0.999)
    return [step * at for at in range(math.ceil(high / step) + 1)]


def _px(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".")
