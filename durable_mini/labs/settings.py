"""What a lab can be set to: sliders, choices, toggles; and the buttons and choices that break it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from durable_mini.errors import shown
from durable_mini.faults import Fault, FaultPlan

if TYPE_CHECKING:
    from durable_mini.trace import Trace

Value = int | str | bool
Values = Mapping[str, Value]


@dataclass(frozen=True)
class Slider:
    """A number between the first and the last of ``stops``; the slider itself rests at these only."""

    name: str
    label: str
    default: int
    stops: tuple[int, ...]
    unit: str = "ms"
    help: str = ""
    more: bool = False
    """Whether it stands under "more"."""

    needs: str = ""
    """The toggle without which it has no effect."""

    off: str = ""
    """What 0 means, in words, where it is no number like the others ("not granted")."""

    def accepted(self, value: object) -> int:
        """``value`` as the setting takes it, or an error that says what was expected."""
        low, high = self.stops[0], self.stops[-1]
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"{self.name}={value!r}: expected a whole number from {low} to {high} ({self.unit}).")
        return value

    def described(self) -> dict[str, Any]:
        """The setting for the front-end."""
        return {
            "kind": "slider", "name": self.name, "label": self.label, "stops": self.stops, "unit": self.unit,
            "help": self.help, "more": self.more, "default": self.default, "off": self.off, "needs": self.needs,
        }  # fmt: skip


@dataclass(frozen=True)
class Choice:
    """One of several words."""

    name: str
    label: str
    default: str
    choices: tuple[str, ...]
    help: str = ""
    more: bool = False

    def accepted(self, value: object) -> str:
        """``value`` as the setting takes it, or an error that says what was expected."""
        if not isinstance(value, str) or value not in self.choices:
            raise ValueError(f"{self.name}={value!r}: expected one of {', '.join(map(repr, self.choices))}.")
        return value

    def described(self) -> dict[str, Any]:
        """The setting for the front-end."""
        return {
            "kind": "choice", "name": self.name, "label": self.label, "choices": self.choices,
            "help": self.help, "more": self.more, "default": self.default,
        }  # fmt: skip


@dataclass(frozen=True)
class Toggle:
    """Yes or no."""

    name: str
    label: str
    default: bool = False
    help: str = ""
    more: bool = False

    def accepted(self, value: object) -> bool:
        """``value`` as the setting takes it, or an error that says what was expected."""
        if not isinstance(value, bool):
            raise TypeError(f"{self.name}={value!r}: expected True or False.")
        return value

    def described(self) -> dict[str, Any]:
        """The setting for the front-end."""
        return {
            "kind": "toggle", "name": self.name, "label": self.label,
            "help": self.help, "more": self.more, "default": self.default,
        }  # fmt: skip


Setting = Slider | Choice | Toggle


def in_effect(setting: Setting, values: Values) -> bool:
    """Whether a setting changes anything: some do only beside a toggle that is on."""
    return not (isinstance(setting, Slider) and setting.needs) or bool(values[setting.needs])


@dataclass(frozen=True)
class Moment:
    """Where a fault control was used: what the words in braces of its lines stand for, and the run on show."""

    names: Mapping[str, str]
    """``object`` and the name of each other object: its label; each operation: the method that does it."""

    at_ms: float
    """The time cursor, in ms since the world began."""

    trace: Trace
    values: Values

    @property
    def object(self) -> str:
        """The label of the lab's object."""
        return self.names["object"]

    @property
    def after_ms(self) -> float:
        """Where a fault goes that strikes after what stands at the cursor: a whole ms if nothing lies between."""
        t = round(self.at_ms * 1000)
        whole = round(t / 1000) * 1000
        times = {event.t for event in self.trace}
        if not any(min(t, whole) <= one <= max(t, whole) for one in times):
            return whole / 1000
        return (t + 1 if t in times else t) / 1000

    def faults(self, line: FaultLine) -> FaultPlan:
        """The faults that ``line`` stands for here."""
        text = line if isinstance(line, str) else line(self)
        for name, meant in self.names.items():
            text = text.replace(f"{{{name}}}", meant)
        if _AT in text:
            text = text.replace(_AT, repr(self.after_ms).removesuffix(".0"))
        return FaultPlan.parse(text)


FaultLine = str | Callable[[Moment], str]
"""A fault as a plan writes it (several stand a line each), or a function that gives it.

Words in braces are filled in: ``{object}`` is the label of the lab's object, the name of another object its label, the
name of an operation the method that does it, and ``{at}`` the time cursor, as in
``"{object}/alarm#0/effect#0: raise after"``, ``"{object}/{charge}#0/turn#0: crash after commit"`` and
``"at {at} ms: evict {object}"``.
"""

_AT: Final = "{at}"


@dataclass(frozen=True)
class FaultButton:
    """A button under "break it": it lengthens the fault plan, and pressed again takes its faults out."""

    name: str
    label: str
    line: FaultLine
    help: str = ""

    @property
    def at_cursor(self) -> bool:
        """Whether its fault strikes at the time cursor."""
        return isinstance(self.line, str) and _AT in self.line

    def pressed(self, plan: FaultPlan, moment: Moment) -> bool:
        """Whether the plan has the faults of this button; those at the cursor count at any moment."""
        mine = moment.faults(self.line)
        return bool(mine) and all(any(self._same(one, fault) for fault in plan) for one in mine)

    def press(self, plan: FaultPlan, moment: Moment) -> FaultPlan:
        """The plan with this button's faults, or without them if it has them already."""
        mine = moment.faults(self.line)
        if self.pressed(plan, moment):
            return FaultPlan(fault for fault in plan if not any(self._same(one, fault) for one in mine))
        return FaultPlan((*plan, *mine))

    def _same(self, mine: Fault, fault: Fault) -> bool:
        if self.at_cursor and mine.point is None:
            return (mine.what, mine.object, None) == (fault.what, fault.object, fault.point)
        return mine == fault

    def described(self) -> dict[str, Any]:
        """The button for the front-end."""
        return {
            "kind": "button", "name": self.name, "label": self.label, "help": self.help, "at_cursor": self.at_cursor,
        }  # fmt: skip


@dataclass(frozen=True)
class FaultChoice:
    """A choice under "break it": of its faults the plan has one at most, such as a crash at one of several points."""

    name: str
    label: str
    options: tuple[tuple[str, FaultLine], ...]
    """Label and line of each; that of "nowhere" is empty, and stands first."""

    help: str = ""

    at_cursor: ClassVar[bool] = False

    def chosen(self, plan: FaultPlan, moment: Moment) -> str:
        """The label of the option whose faults the plan has; without one, that of the first option."""
        found = self.options[0][0]
        most = 0
        for label, line in self.options:
            mine = moment.faults(line)
            if len(mine) > most and all(one in plan for one in mine):
                found, most = label, len(mine)
        return found

    def choose(self, plan: FaultPlan, label: str, moment: Moment) -> FaultPlan:
        """The plan with the faults of the option ``label`` in the place of those of the others."""
        lines = dict(self.options)
        if label not in lines:
            raise ValueError(f"{self.name}={label!r}: expected one of {', '.join(map(repr, lines))}.")
        mine = {fault for line in lines.values() for fault in moment.faults(line)}
        return FaultPlan((*(fault for fault in plan if fault not in mine), *moment.faults(lines[label])))

    def described(self) -> dict[str, Any]:
        """The choice for the front-end."""
        return {
            "kind": "choice", "name": self.name, "label": self.label, "help": self.help, "at_cursor": False,
            "options": [label for label, _ in self.options],
        }  # fmt: skip


FaultControl = FaultButton | FaultChoice


def values_of(
    settings: Sequence[Setting], given: Mapping[str, object], start: Values | None = None
) -> dict[str, Value]:
    """Every setting's value: as given, as in ``start``, or its default."""
    known = {setting.name: setting for setting in settings}
    for name in given:
        if name not in known:
            raise TypeError(f"The lab has no setting {name!r}; it has {', '.join(known)}, and faults and seed.")
    before = start or {}
    return {
        name: setting.accepted(given[name]) if name in given else before.get(name, setting.default)
        for name, setting in known.items()
    }


MOST_SEED: Final = 999_999_999


def seed_of(given: object) -> int:
    """A seed as it was given, or an error that says what was expected."""
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= MOST_SEED:
        raise ValueError(f"seed={shown(given)}: a seed is a whole number of at most 9 digits.")
    return given


def plan_of(given: object) -> FaultPlan:
    """A fault plan as it was given, as such or as text, or an error that says what was expected."""
    if isinstance(given, FaultPlan):
        return given
    if isinstance(given, str):
        return FaultPlan.parse(given)
    raise TypeError(f"faults={shown(given)}: expected a FaultPlan, or a text with a fault a line.")
