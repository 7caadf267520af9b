"""Charts of named series: what is drawn, where, and the same in words."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest

from durable_mini.figures.palette import DARK, LIGHT
from durable_mini.figures.series import IN_PAGE, WIDTH, Chart, Series, linear_ticks, log_ticks, look

RETRIES = (2_200.0, 6_600.0, 15_400.0, 33_000.0, 68_200.0, 138_600.0)
OURS = Series("this run", tuple((ms, number + 1, f"retry {number + 1}") for number, ms in enumerate(RETRIES)))
REAL = Series("recorded", tuple((ms * 1.05, number + 1, "") for number, ms in enumerate(RETRIES)), recorded=True)
LOG = Chart("When the runtime tries again", "ms since the first failure", "retry", (OURS, REAL), log=True)
LINEAR = Chart("The same", "ms", "retry", (OURS, REAL, Series("nothing", ())))
NS = "{http://www.w3.org/2000/svg}"


def texts(chart: Chart) -> list[str]:
    return [one.text or "" for one in ET.fromstring(chart.svg()).iter(f"{NS}text")]  # noqa: S314 - our own text


def glyphs(chart: Chart) -> list[tuple[float, float]]:
    found = re.findall(
        r'translate\(([\d.]+) ([\d.]+)\)" d="M[^"]+" fill="[^"]+" stroke="[^"]+" stroke-width', chart.svg()
    )
    return [(float(x), float(y)) for x, y in found][len(chart.series) :]  # the first ones are the legend's


def test_the_text_has_every_point() -> None:
    told = repr(LOG).splitlines()
    assert told[0] == "When the runtime tries again (ms since the first failure, logarithmic)"
    assert [line.split()[:5] for line in told[2:4]] == [
        ["this", "run", "2", "200", "1"],
        ["this", "run", "6", "600", "2"],
    ]
    assert len(told) == 2 + len(OURS.points) + len(REAL.points)
    assert "no points" in LINEAR.text


def test_names_labels_and_axes_are_drawn() -> None:
    shown = texts(LOG)
    for name in ("When the runtime tries again", "this run", "recorded", "retry", "retry 1", "retry 6"):
        assert name in shown
    assert "ms since the first failure, logarithmic" in shown
    assert "10\u00a0000" in shown


def test_equal_ratios_are_equal_distances_on_a_logarithmic_axis() -> None:
    doubling = Chart("t", "ms", "n", (Series("s", tuple((2.0**n, n, "") for n in range(5))),), log=True)
    xs = [x for x, _ in glyphs(doubling)]
    steps = [later - before for before, later in pairwise(xs)]
    assert max(steps) - min(steps) < 0.3
    even = Chart("t", "ms", "n", (Series("s", tuple((float(n), n, "") for n in range(5))),))
    xs = [x for x, _ in glyphs(even)]
    steps = [later - before for before, later in pairwise(xs)]
    assert max(steps) - min(steps) < 0.3


@pytest.mark.parametrize("chart", [LOG, LINEAR, Chart("empty", "ms", "n", ()), Chart("one", "ms", "n", (
    Series("s", ((5.0, 0.0, "here"),)),), log=True)])  # fmt: skip
def test_all_marks_are_within_the_picture(chart: Chart) -> None:
    root = ET.fromstring(chart.svg())  # noqa: S314 - our own text
    height = float((root.get("viewBox") or "").split()[3])
    assert all(0 < x < WIDTH and 0 < y < height for x, y in glyphs(chart))
    assert len(glyphs(chart)) == sum(len(one.points) for one in chart.series)


def test_series_differ_by_more_than_colour() -> None:
    chart = Chart("t", "ms", "n", (OURS, REAL, OURS, OURS, OURS))
    assert len({glyph for _, glyph in look(chart)}) == 5
    assert look(chart)[1] == ("soft", "triangle")


def test_two_recordings_differ_in_mark_and_dash_and_no_line_runs_through_their_labels() -> None:
    other = Series("s36b", tuple((x * 1.1, y, label and f"{label} too") for x, y, label in REAL.points), recorded=True)
    chart = Chart("t", "ms", "n", (OURS, REAL, other))
    assert look(chart)[1:] == [("soft", "triangle"), ("ink", "triangle-down")]
    assert 'stroke-dasharray="4 3"' in chart.svg()
    assert 'stroke-dasharray="1 3"' in chart.svg()


def test_the_palette_is_light_dark_or_that_of_the_page() -> None:
    assert LIGHT["blue"] in LOG.svg()
    assert DARK["blue"] in LOG.svg(DARK)
    assert DARK["bg"] in LOG.svg(DARK)
    in_page = LOG.svg(IN_PAGE)
    assert "var(--dm-blue)" in in_page
    assert "#" not in in_page
    assert "http://" not in in_page.replace("http://www.w3.org/2000/svg", "")


def test_a_notebook_keeps_picture_and_text() -> None:
    assert set(LOG._repr_mimebundle_()) == {"image/svg+xml", "text/plain"}


def test_names_are_no_markup() -> None:
    ET.fromstring(Chart("<a> & b", "<x>", "&", (Series('"<s>"', ((1.0, 1.0, "<&>"),)),)).svg())  # noqa: S314


def test_a_logarithmic_axis_takes_numbers_above_0() -> None:
    with pytest.raises(ValueError, match=r"^The axis 'ms' takes numbers above 0, not 0\.$"):
        Chart("t", "ms", "n", (Series("s", ((0, 1, ""),)),), log=True)
    with pytest.raises(ValueError, match="takes finite numbers"):
        Chart("t", "ms", "n", (Series("s", ((float("nan"), 1, ""),)),))


def test_ticks() -> None:
    assert log_ticks(1, 1_000_000) == [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000]
    assert log_ticks(20, 300) == [20, 50, 100, 200]
    assert linear_ticks(0, 7, 5, least=1) == [0, 2, 4, 6]
    assert linear_ticks(0, 0.9, 5) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8])
    assert linear_ticks(0, 163_800, 8) == [0, 50_000, 100_000, 150_000]
