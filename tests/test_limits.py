"""The table of constants."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from durable_mini import Limits, World, limits


def test_every_limit_says_its_unit_its_source_and_how_well_it_is_known() -> None:
    assert len(limits.LIMITS) == len(vars(Limits())) > 20
    for name, limit in limits.LIMITS.items():
        assert limit.unit, name
        assert limit.source, name
        assert limit.kind in ("recorded", "documented", "assumed"), name


def test_the_platforms_numbers_are_those_of_the_measurements() -> None:
    default = Limits()
    assert (default.alarm_retry_start_ms, default.alarm_retry_max_tries, default.alarm_jitter) == (2_000, 6, 0.25)
    assert (default.alarm_backoff_max, default.alarm_wall_ms) == (9, 15 * 60 * 1_000)
    assert (default.block_ms, default.block_nesting, default.eviction_ms) == (30_000, 64, 10_000)
    assert (default.keys_per_call, default.key_and_value_bytes) == (128, 2_000_000)
    assert default.database_bytes == 10_000_000_000
    assert (default.sql_bytes, default.sql_parameters, default.sql_columns) == (100_000, 100, 100)


def test_limits_of_a_world_are_given_as_Limits_or_as_a_dict_of_changes() -> None:
    assert World(limits={"keys_per_call": 3}).limits == Limits(keys_per_call=3) == World(
        limits=Limits(keys_per_call=3)
    ).limits  # fmt: skip
    assert World().limits == Limits()


def test_limits_cannot_be_changed_afterwards() -> None:
    with pytest.raises(AttributeError, match=r"^Limits do not change; make others with Limits\(keys_per_call=...\)\."):
        Limits().keys_per_call = 5


def test_a_world_begins_at_a_fixed_date_and_alarms_end_with_2189() -> None:
    def date(ms: int) -> str:
        return dt.datetime.fromtimestamp(ms / 1_000, dt.UTC).isoformat()

    assert date(limits.WORLD_START_MS) == "2026-01-01T00:00:00+00:00"
    assert date(limits.ALARM_TIME_MAX_MS) == "2190-01-01T00:00:00+00:00"
    assert World().start == World().now == limits.WORLD_START_MS


@pytest.mark.parametrize("wrong", [-1, "5", None, True, float("nan"), [1]], ids=repr)
def test_a_limit_that_is_no_number_from_0_on_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"^Limits\(block_ms=.*\): expected a whole number, 0 or more \(ms\)\.$"):
        Limits(block_ms=wrong)
