import io
import re
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest
from PIL import Image

from include.evaluation.picture_html import draw_html
from include.evaluation.picture_png import draw_png
from include.evaluation.picture_points import AXES, Point, Role
from include.evaluation.picture_svg import draw_svg
from tests.support.scorecards import scorecard

NASTY = "<script>alert(\"x\")</script> $\\frac{a}$ & 'q'"


@pytest.fixture
def front():
    return (
        Point(card=scorecard(), role=Role.DOMINATED, failed=()),
        Point(card=scorecard("int8", size=150_000, cpu_ms=0.05), role=Role.CHOSEN, failed=()),
        Point(card=scorecard("bad", accuracy=0.6), role=Role.REFUSED, failed=("min_accuracy: 0.6 (limit 0.95)",)),
    )


class Collector(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.attributes, self.text = [], [], ""

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text += data


def test_png_shows_different_pixels_for_different_fronts(front):
    first, second = draw_png("digits", front), draw_png("digits", front[:2])
    image = Image.open(io.BytesIO(first))
    assert image.format == "PNG"
    assert image.width > 800
    assert len(set(image.convert("RGB").get_flattened_data())) > 50
    assert first != second


def test_png_takes_any_text(front):
    assert draw_png(NASTY, (Point(card=scorecard(NASTY), role=Role.FRONT, failed=()),)).startswith(b"\x89PNG")


def test_page_holds_every_candidate_with_its_figures_and_failed_gates(front):
    page = draw_html("digits: int8 chosen", front)
    rows = re.findall(r"<tr><td>.*?</tr>", page)
    assert [re.search("<td>(.*?)</td>", row).group(1) for row in rows] == ["onnx-fp32", "int8", "bad"]
    assert "150.0" in rows[1]
    assert "min_accuracy: 0.6 (limit 0.95)" in rows[2]


def test_page_escapes_every_value():
    page = draw_html(NASTY, (Point(card=scorecard(NASTY), role=Role.REFUSED, failed=(NASTY,)),))
    parsed = Collector()
    parsed.feed(page)
    assert parsed.tags.count("script") == 1
    assert "alert(" not in page.split("<script>")[1]
    assert NASTY in parsed.text


def test_page_loads_nothing_from_elsewhere(front):
    parsed = Collector()
    parsed.feed(draw_html("digits", front))
    assert not {"link", "img", "iframe", "object", "embed"} & set(parsed.tags)
    assert not [name for name, _ in parsed.attributes if name in {"src", "href", "xlink:href"}]
    assert "url(" not in draw_html("digits", front)


def test_chart_is_well_formed_and_better_candidates_lie_further_left_and_up(front):
    chart = ET.fromstring(draw_svg(front))
    marks = [group for group in chart.iter("g") if group.get("class") == "point"]
    assert len(marks) == 3
    base, int8, bad = marks
    assert float(int8.get("data-x-size")) < float(base.get("data-x-size"))
    assert float(int8.get("data-x-cpu")) < float(base.get("data-x-cpu"))
    assert float(bad.get("data-y")) > float(base.get("data-y"))


def test_chart_has_ticks_for_each_quantity_and_shows_the_first(front):
    groups = {
        g.get("data-axis"): g.get("visibility") for g in ET.fromstring(draw_svg(front)).iter("g") if g.get("data-axis")
    }
    assert groups == {axis.name: "visible" if axis is AXES[0] else "hidden" for axis in AXES}


def test_a_single_candidate_can_be_drawn(front):
    assert draw_html("one", front[:1]).count('class="point"') == 1
    assert draw_png("one", front[:1]).startswith(b"\x89PNG")
