"""Charts are SVG with a title on every point, and safe whatever names they show."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from milepost.ui.drawn.charts import (
    Bar,
    area,
    legend,
    nice_ticks,
    share_bar,
    sparkline,
    stacked_bars,
)
from milepost.ui.drawn.charts import thinned as thinned_

SVG = ElementTree.Element


def parsed(markup: str) -> SVG:
    return ElementTree.fromstring(markup)  # noqa: S314 - our own


def titles(drawing: SVG) -> list[str]:
    return [each.text or "" for each in drawing.iter("title")]


def test_a_sparkline_says_what_it_shows_and_has_a_title_on_every_point() -> None:
    drawing = parsed(sparkline([1.0, None, 3.0], "Lag"))
    assert titles(drawing) == ["Lag: 3 now, at most 3", "1", "3"]


def test_a_gap_is_not_drawn_as_zero() -> None:
    paths = re.findall(r'class="line" d="([^"]*)"', sparkline([1.0, 2.0, None, 2.0, 1.0], "Lag"))
    assert [path.count("L") + 1 for path in paths] == [2, 2]


def test_a_sparkline_of_nothing_and_of_one_point() -> None:
    assert titles(parsed(sparkline([None, None], "Lag"))) == ["Lag: nothing yet"]
    assert 'class="line"' in sparkline([None, 5.0], "Lag")


@pytest.mark.parametrize("top", [0.0, 0.03, 1.0, 7.0, 99.0, 1234.0, 5e7])
def test_ticks_are_round_and_reach_the_top(top: float) -> None:
    ticks = nice_ticks(top)
    assert ticks[0] == 0.0
    assert ticks[-1] >= top * 0.999
    assert 2 <= len(ticks) <= 7


def test_an_area_has_axes_with_labels() -> None:
    drawing = parsed(area([0.0, 50.0, 100.0], "Rate", labels=["10:00", "10:01", "10:02"]))
    texts = [each.text for each in drawing.iter("text")]
    assert [texts[0], texts[4]] == ["0", "100"]
    assert texts[-3:] == ["10:00", "10:01", "10:02"]
    assert "10:01 50" in titles(drawing)


def test_bars_are_stacked_without_overlapping() -> None:
    drawing = parsed(stacked_bars([Bar("batch 1", [2.0, 3.0])], ["read", "write"], "Phases"))
    lower, upper = (each for each in drawing.iter("rect"))
    assert float(upper.attrib["y"]) + float(upper.attrib["height"]) == pytest.approx(
        float(lower.attrib["y"]), abs=0.11
    )
    assert titles(drawing)[1:] == ["batch 1 read: 2", "batch 1 write: 3"]


def test_thinning_keeps_peaks() -> None:
    assert thinned_([1.0, 9.0, None, 2.0, None, None], 3) == [9.0, 2.0, None]


def test_names_are_escaped() -> None:
    bad = "<script>alert(1)</script>\"'"
    for markup in (
        sparkline([1.0], bad),
        area([1.0], bad, labels=[bad]),
        stacked_bars([Bar(bad, [1.0])], [bad], bad),
        legend([bad]),
        share_bar([(bad, 0.5, "s0")], bad),
    ):
        assert "<script" not in markup


def test_no_chart_has_a_style() -> None:
    for markup in (sparkline([1.0], "a"), area([1.0], "a"), share_bar([("a", 1.0, "s0")], "a")):
        assert "style" not in markup
