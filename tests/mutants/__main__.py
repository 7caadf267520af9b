"""The matrix of mutants by hand: `python -m tests.mutants --help`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tests.mutants.matrix import Outcome, pool, run_named, run_whole
from tests.mutants.mutants import MUTANTS


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what becomes of each mutant; 1 if one survives the tests named for it."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants", description="Plant wrong rules in the runtime, and see which tests notice."
    )
    parser.add_argument("--all", action="store_true", help="also run all unit and recording tests (up to an hour)")
    parser.add_argument("--only", metavar="NAME", help="only the mutants with NAME in their names")
    options = parser.parse_args(arguments)
    chosen = [mutant for mutant in MUTANTS if options.only is None or options.only in mutant.name]
    if not chosen:
        parser.error(f"there is no mutant {options.only!r}; there are: {', '.join(one.name for one in MUTANTS)}")
    alive = 0
    workers = pool()
    try:
        runs = [
            (mutant, workers.submit(run_named, mutant), workers.submit(run_whole, mutant) if options.all else None)
            for mutant in chosen
        ]
        for mutant, named, whole in runs:
            print(f"{mutant.name}\n    breaks    {mutant.breaks}")
            _show("named", named.result())
            alive += named.result().verdict != "killed"
            if whole is not None:
                _show("all", whole.result())
    finally:
        workers.shutdown(cancel_futures=True)
    print(f"{len(chosen)} mutants, {len(chosen) - alive} of them killed by the tests named for them")
    return 1 if alive else 0


def _show(which: str, outcome: Outcome) -> None:
    print(f"    {which:<8}  {outcome.verdict} in {outcome.seconds:.1f} s")
    for failure in outcome.failures:
        print(f"              {failure.test}")
    if outcome.verdict != "killed":
        print(f"              {outcome.told.strip()[-2_000:]}")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
