"""Predictions: a learner commits to an answer before the result is shown."""

from __future__ import annotations

import textwrap


def reveal(prediction: str, options: dict[str, str], answer: str, because: str) -> None:
    """Print what ``answer`` is and how the prediction compares; ``options`` are the letters and their texts."""
    given = prediction.strip().lower()
    if answer not in options:
        raise ValueError(f"The answer {answer!r} is none of the options {', '.join(options)}.")
    if not given:
        said = f"No prediction yet: write {' or '.join(options)} above, and run both cells again."
    elif given not in options:
        said = f"{prediction!r} is none of {', '.join(options)}."
    elif given == answer:
        said = f"You said {given}, and so it is."
    else:
        said = f"You said {given}: {options[given]}."
    print(said)
    print(f"It is {answer}: {options[answer]}.")
    print(textwrap.fill(because, 100))
