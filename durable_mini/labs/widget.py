"""The lab's widget: the one place that knows ipywidgets and anywidget.

All work is done within the callback of a message: the scenario runs to its end and one
message goes back. No task, thread or timer is left behind.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from durable_mini.faults import FaultPlan
from durable_mini.figures.palette import stylesheet
from durable_mini.labs.deadline import TookTooLong, deadline
from durable_mini.labs.interrupted import EndsPythonError, Stopped
from durable_mini.labs.picture import description, offered, picture, refusal
from durable_mini.labs.settings import seed_of

if TYPE_CHECKING:
    from durable_mini.labs.lab import Lab, Outcome

_HERE = Path(__file__).parent
_MODULES = ("words.js", "place.js", "timeline.js", "controls.js", "faults.js", "past.js", "lab.js")
"""Parts of one ES module, in the order in which they are joined."""


class LabWidget(anywidget.AnyWidget):
    """A lab in the browser."""

    _esm = "\n".join((_HERE / name).read_text(encoding="utf-8") for name in _MODULES)
    _css = stylesheet() + (_HERE / "lab.css").read_text(encoding="utf-8")

    most_seconds = 3.0
    """How long one run may take in real time."""

    about = traitlets.Dict().tag(sync=True)
    """What does not change: title, settings, buttons, styles."""

    picture = traitlets.Unicode().tag(sync=True)
    """The newest run, as JSON."""

    place = traitlets.Unicode().tag(sync=True)
    """The name in the static picture that the live lab takes the place of; empty where it has a view of its own."""

    offered = traitlets.Unicode().tag(sync=True)
    """The faults that fit the event that was asked for last, as JSON."""

    refused = traitlets.Unicode().tag(sync=True)
    """Why the newest change was not accepted, as JSON; the picture stays."""

    def __init__(self, lab: Lab, outcome: Outcome, place: str = "") -> None:
        super().__init__(about=description(lab), picture=picture(lab, outcome), place=place)
        self._lab = lab
        self._outcome = outcome
        self.on_msg(self._on_message)

    def close_all(self) -> None:
        """Close the widget and the layout that ipywidgets gives each."""
        self.layout.close()
        self.close()

    def _on_message(self, _widget: object, content: Mapping[str, Any], _buffers: object) -> None:
        reply_to = content.get("reply")
        try:
            with deadline(self.most_seconds):
                if "ask" in content:
                    self.offered = offered(self._outcome, int(content["ask"]), reply_to)
                else:
                    self.picture = self.changed(content)
        except TookTooLong:
            name = self._lab.class_for(self._outcome.values).__name__
            self.refused = refusal(
                f"The run was stopped after {self.most_seconds:g} s of real time: is there an endless loop in {name}?",
                reply_to,
                stopped=True,
            )
        except WrongPlanError as error:
            self.refused = refusal(str(error), reply_to, field="plan")
        except (Stopped, EndsPythonError) as error:
            self.refused = refusal(str(error), reply_to, stopped=True)
        except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 - in a callback nobody would see it
            self.refused = refusal(f"{type(error).__name__}: {error}", reply_to)

    def changed(self, content: Mapping[str, Any]) -> str:
        """Run the lab as the front-end asks for, and return the picture of that run."""
        lab, before = self._lab, self._outcome
        plan = _plan(str(content.get("plan", "")), edited=bool(content.get("edited")))
        if content.get("press"):
            pressed, option = str(content["press"]), str(content.get("option") or "")
            plan = lab.press(pressed, plan, float(content["at_ms"]), self._outcome, option)
        outcome = lab.outcome(faults=plan, seed=seed_of(content["seed"]), **dict(content["settings"]))
        answer = picture(lab, outcome, content.get("reply"), before)
        self._outcome = outcome
        return answer


class WrongPlanError(ValueError):
    """A plan that was typed in, and that cannot be read."""


def _plan(text: str, *, edited: bool) -> FaultPlan:
    try:
        return FaultPlan.parse(text)
    except ValueError as error:
        raise (WrongPlanError(str(error)) if edited else error) from None
