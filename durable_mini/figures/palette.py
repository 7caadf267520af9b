"""Colours, glyphs and what they stand for: the home of both, for figures, labs and their style sheet.

The hues are those of Okabe and Ito, darkened or lightened until text in them is legible on
its background. Hue is never the only sign: each kind of mark has a glyph of its own, and
each kind of span an outline of its own, so that grey print tells them apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LIGHT: Final = {
    "bg": "#ffffff", "ink": "#1d2430", "soft": "#586270", "line": "#d9dee6", "panel": "#f6f8fb",
    "blue": "#0068a3", "orange": "#a35200", "green": "#00705a", "red": "#b3261e",
    "sky": "#cfe6f5", "sand": "#f7e3c8", "rose": "#f9dedc",
}  # fmt: skip
DARK: Final = {
    "bg": "#14181f", "ink": "#e8edf4", "soft": "#9aa7b8", "line": "#303a48", "panel": "#1b212b",
    "blue": "#6cc0f5", "orange": "#f2a65a", "green": "#5fd3b0", "red": "#ff8a80",
    "sky": "#1d3b52", "sand": "#4a3720", "rose": "#4a2326",
}  # fmt: skip


@dataclass(frozen=True)
class Style:
    """How a kind of mark or span looks."""

    tone: str
    """A colour of the palette, for glyph, outline and label."""

    glyph: str = ""
    """A name in :data:`GLYPHS`, for marks."""

    fill: str = ""
    """A colour of the palette, for spans."""

    dashed: bool = False
    weight: int = 1
    """Which labels go first where room is scarce: higher ones do."""


STYLES: Final = {
    # marks
    "sent": Style("blue", "play", weight=4),
    "refused": Style("red", "cross", weight=8),
    "built": Style("soft", "diamond", weight=1),
    "evicted": Style("soft", "diamond-open", weight=3),
    "gone": Style("red", "cross", weight=9),
    "raised": Style("red", "cross", weight=9),
    "moved": Style("orange", "swap", weight=7),
    "removed": Style("soft", "slash", weight=3),
    "done": Style("green", "check", weight=5),
    "cancelled": Style("orange", "slash", weight=7),
    "abandoned": Style("red", "stop", weight=9),
    "commit": Style("green", "bar", weight=2),
    "undone": Style("red", "bar-open", weight=8),
    "full": Style("red", "stop", weight=9),
    "applied": Style("orange", "dot", weight=6),
    "again": Style("red", "target", weight=9),
    "repeated": Style("orange", "target", weight=7),
    "unheard": Style("red", "cross", weight=7),
    "fault": Style("red", "bolt", weight=8),
    "missed": Style("soft", "bolt-open", weight=8),
    "logged": Style("soft", "dot-open", weight=3),
    "ends": Style("ink", "end", weight=8),
    "recorded": Style("soft", "triangle", weight=2),
    # spans
    "memory": Style("line", fill="panel"),
    "call": Style("blue", fill="sky", weight=2),
    "run": Style("blue", fill="sky", weight=2),
    "failed": Style("orange", fill="sand", weight=2),
    "armed": Style("blue", fill="sky", weight=5),
    "waiting": Style("soft", fill="panel", dashed=True, weight=6),
    "lost": Style("red", fill="rose", dashed=True, weight=9),
    "gate": Style("ink", fill="line", dashed=True, weight=3),
    "flight": Style("orange", fill="sand", weight=1),
    "down": Style("soft", fill="panel", dashed=True, weight=7),
}
"""Every kind that a layout can hold."""

GLYPHS: Final = {
    "play": ("M-4 -5L5 0L-4 5Z", True, "▸"),
    "cross": ("M-4.5 -4.5L4.5 4.5M4.5 -4.5L-4.5 4.5", False, "✕"),
    "diamond": ("M0 -5L5 0L0 5L-5 0Z", True, "◆"),
    "diamond-open": ("M0 -5L5 0L0 5L-5 0Z", False, "◇"),
    "swap": ("M-5 -2H4L1 -5M5 2H-4L-1 5", False, "⇄"),
    "slash": ("M5 0A5 5 0 1 1 -5 0A5 5 0 1 1 5 0M-3.5 3.5L3.5 -3.5", False, "⊘"),
    "check": ("M-5 0.5L-1.5 4L5 -4.5", False, "✓"),
    "stop": ("M-4.5 -4.5H4.5V4.5H-4.5Z", True, "■"),
    "bar": ("M0 -8V8", False, "|"),
    "bar-open": ("M0 -8V-3M0 -1.5V1.5M0 3V8", False, "¦"),
    "dot": ("M5 0A5 5 0 1 1 -5 0A5 5 0 1 1 5 0", True, "●"),
    "dot-open": ("M3 0A3 3 0 1 1 -3 0A3 3 0 1 1 3 0", False, "◦"),
    "target": ("M6 0A6 6 0 1 1 -6 0A6 6 0 1 1 6 0M2.5 0A2.5 2.5 0 1 1 -2.5 0A2.5 2.5 0 1 1 2.5 0", False, "◎"),
    "bolt": ("M1.5 -7L-4 1H-0.5L-1.5 7L4 -1.5H0.5Z", True, "↯"),
    "bolt-open": ("M1.5 -7L-4 1H-0.5L-1.5 7L4 -1.5H0.5Z", False, "↯"),
    "end": ("M-5 0H4M4 -6V6", False, "⊣"),
    "triangle": ("M0 -4L4.5 4H-4.5Z", False, "△"),
    "triangle-down": ("M0 4L4.5 -4H-4.5Z", False, "▽"),
}
"""Glyphs as (SVG path around 0, 0; whether it is filled; the nearest character of text)."""


def stylesheet() -> str:
    """The palette as CSS custom properties, with the names that the lab's style sheet uses."""
    light = "".join(f"--dm-{name}:{colour};" for name, colour in LIGHT.items())
    dark = "".join(f"--dm-{name}:{colour};" for name, colour in DARK.items())
    return (
        f".dm-lab{{{light}color-scheme:light}}\n"
        f"@media (prefers-color-scheme:dark){{.dm-lab{{{dark}color-scheme:dark}}}}\n"
        f"[data-jp-theme-light=true] .dm-lab{{{light}color-scheme:light}}\n"
        f"[data-jp-theme-light=false] .dm-lab{{{dark}color-scheme:dark}}\n"
    )
