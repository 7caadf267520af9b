"""A shard as a queue: theory against a simulation of Lindley's recursion, and against itself."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import pytest

from durable_mini import Exponential
from durable_mini.draws import stream
from durable_mini.sharding import Queue, queue

MS = 2.0
CUSTOMERS = 400_000


def load(rho: float, service_ms: float | Exponential = MS) -> Queue:
    """The queue of that utilisation."""
    return Queue(rho * 1_000 / MS, service_ms)


@cache
def waits(rho: float, *, constant: bool) -> list[float]:
    """Each customer's wait by Lindley's recursion: the last one's wait and service, less the time in between."""
    between, service = stream(1, "arrivals"), stream(1, "service")
    found, wait = [], 0.0
    for _ in range(CUSTOMERS):
        found.append(wait)
        served = MS if constant else -MS * math.log(1 - service())
        wait = max(0.0, wait + served + MS / rho * math.log(1 - between()))
    return found


@pytest.mark.parametrize("rho", [0.3, 0.5, 0.8])
@pytest.mark.parametrize("constant", [True, False], ids=["M/D/1", "M/M/1"])
def test_waits_are_distributed_as_in_a_simulation(rho: float, constant: bool) -> None:
    theory = load(rho, MS if constant else Exponential(MS))
    simulated = waits(rho, constant=constant)
    assert sum(simulated) / CUSTOMERS == pytest.approx(theory.mean_wait_ms, rel=0.03)
    for ms in (0, 0.5, 1.9, 2, 3, 5.5, 8, 12, 20):
        share = sum(wait <= ms for wait in simulated) / CUSTOMERS
        assert theory.waits_at_most(ms) == pytest.approx(share, abs=0.006)


@pytest.mark.parametrize("rho", [0.3, 0.5, 0.8])
def test_the_p99_of_a_constant_service_is_that_of_a_simulation(rho: float) -> None:
    simulated = sorted(waits(rho, constant=True))[round(0.99 * CUSTOMERS)] + MS
    assert load(rho).percentile_ms() == pytest.approx(simulated, rel=0.03)


def test_the_stay_with_exponential_service_is_exponential() -> None:
    assert load(0.5, Exponential(MS)).percentile_ms() == pytest.approx(math.log(100) * MS / 0.5)
    assert load(0, Exponential(MS)).percentile_ms(0.5) == pytest.approx(math.log(2) * MS)


@pytest.mark.parametrize("rho", [0.05, 0.3, 0.5, 0.7])
def test_short_waits_agree_with_erlangs_formula(rho: float) -> None:
    for waited in (0.0, 0.4, 1.0, 1.5, 2.7, 4.2):
        erlang = 0.0
        for k in range(math.floor(waited) + 1):
            late = rho * (k - waited)
            erlang += (1 - rho) * late**k / math.factorial(k) * math.exp(-late)
        assert load(rho).waits_at_most(waited * MS) == pytest.approx(erlang, rel=1e-12)


@pytest.mark.parametrize("rho", [0.9, 0.97, 0.995])
def test_the_exact_distribution_and_its_tail_meet(rho: float) -> None:
    before, after = (load(rho).waits_at_most((queue.LEVELS + side) * MS) for side in (-1e-9, 1e-9))
    assert 1 - before == pytest.approx(1 - after, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("rho", [0.01, 0.2, 0.6, 0.9, 0.99, 0.9999])
@pytest.mark.parametrize("share", [0.5, 0.9, 0.99, 0.9999])
@pytest.mark.parametrize("service", [MS, Exponential(MS)], ids=str)
def test_a_percentile_and_the_distribution_undo_one_another(rho: float, share: float, service: Any) -> None:
    found = load(rho, service)
    at = found.percentile_ms(share)
    if isinstance(service, Exponential):
        assert at == pytest.approx(-math.log(1 - share) * MS / (1 - rho))
    elif at > MS:
        assert found.waits_at_most(at - MS) == pytest.approx(share, abs=1e-9)
    else:
        assert found.waits_at_most(0) >= share


def test_with_no_load_nobody_waits_and_from_utilisation_1_on_everybody_does() -> None:
    assert load(0).percentile_ms() == MS
    assert load(0).waits_at_most(0) == 1
    assert load(0).waits_at_most(10_000) == 1
    for rho in (1.0, 1.5):
        assert load(rho).percentile_ms() == load(rho).mean_wait_ms == math.inf
        assert load(rho).waits_at_most(1_000) == 0


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: Queue(-1, 2), "Queue(rate=...): expected a number (requests/s), 0 or more, and got -1."),
        (lambda: Queue(math.nan, 2), "Queue(rate=...): expected a number (requests/s), 0 or more, and got nan."),
        (lambda: Queue(1, 0), "Queue(service_ms=...): expected a number (ms, or Exponential(mean)), above 0"),
        (lambda: Queue(1, "2"), "Queue(service_ms=...): expected a number (ms, or Exp"),  # type: ignore[arg-type]
        (lambda: Queue(1, 2).waits_at_most(-1), "waits_at_most(ms): expected a number (ms), 0 or more, and got -1."),
        (lambda: Queue(1, 2).percentile_ms(1), "percentile_ms(share): expected a number (a share, such as 0.99)"),
        (lambda: Queue(1, 2).percentile_ms(True), "percentile_ms(share): expected a number (a share, such as 0.99)"),
    ],
)
def test_bad_input_gets_one_sentence(call: Any, sentence: str) -> None:
    with pytest.raises((TypeError, ValueError)) as raised:
        call()
    assert str(raised.value).startswith(sentence)
