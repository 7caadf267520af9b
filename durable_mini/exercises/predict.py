"""Predictions: a learner commits to an answer, then sees what is the case."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass

from durable_mini.figures.words import shortened


@dataclass(frozen=True)
class Question:
    """A question with lettered options; ``answer`` is the letter that is right, ``because`` says why."""

    options: Mapping[str, str]
    answer: str
    because: str

    def __post_init__(self) -> None:
        if self.answer not in self.options:
            raise ValueError(f"The answer {self.answer!r} is none of the options {', '.join(self.options)}.")

    def reveal(self, prediction: object) -> None:
        """Print how ``prediction``, a letter, compares with what is the case; nothing is told before there is one."""
        given = prediction.strip().lower() if isinstance(prediction, str) else ""
        letters = " or ".join(self.options)
        if given not in self.options:
            missing = f"{shortened(given, 24)!r} is none of the answers" if given else "No prediction yet"
            print(f"{missing}: write {letters} between the quotes above, and run both cells again.")
            return
        if given == self.answer:
            print(f"You said {given}, and so it is: {self.options[given]}.")
        else:
            print(f"You said {given}: {self.options[given]}. It is {self.answer}: {self.options[self.answer]}.")
        print(textwrap.fill(self.because, 84))
