"""What a lab can be set to: sliders, choices, toggles; and the buttons that break it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from durable_mini.faults import FaultPlan

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
    """Where a fault button was pressed."""

    object: str
    """The label of the lab's object."""

    at_ms: float
    """The time cursor, in ms since the world began."""

    trace: Trace
    values: Values

    @property
    def after_ms(self) -> float:
        """Where a fault goes that strikes after what stands at the cursor: a whole ms if nothing lies between."""
        t = round(self.at_ms * 1000)
        whole = round(t / 1000) * 1000
        times = {event.t for event in self.trace}
        if not any(min(t, whole) <= one <= max(t, whole) for one in times):
            return whole / 1000
        return (t + 1 if t in times else t) / 1000


@dataclass(frozen=True)
class FaultButton:
    """A button under "break it": it lengthens the fault plan, and pressed again takes its fault out."""

    name: str
    label: str
    what: str
    """The kind of fault it adds, as in ``Fault.what``; the button is pressed while the plan has one."""

    add: Callable[[FaultPlan, Moment], FaultPlan]
    help: str = ""
    at_cursor: bool = False
    """Whether its fault strikes at the time cursor."""

    def pressed(self, plan: FaultPlan) -> bool:
        """Whether the plan has a fault of this button."""
        return any(fault.what == self.what for fault in plan)

    def press(self, plan: FaultPlan, moment: Moment) -> FaultPlan:
        """The plan with this button's fault, or without it if it is there already."""
        if self.pressed(plan):
            return FaultPlan(fault for fault in plan if fault.what != self.what)
        return self.add(plan, moment)


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
