"""A part is rendered again only if what it shows has changed."""

from __future__ import annotations

from milepost.ui.drawn.page import Page, Part
from milepost.ui.drawn.render import Place, Rendering, environment, link, number, rate, render


def rows(lag: int) -> Part:
    return Part("rows", "overview/rows.html", {
        "title": f"<b>{lag}</b>", "rows": [], "more": 0, "lag": "", "rate": "",
    })  # fmt: skip


def test_an_equal_part_is_not_rendered_again() -> None:
    rendering = Rendering(Place())
    first = rendering.update(Page("", [rows(1)]))
    again = rendering.update(Page("", [rows(1)]))
    changed = rendering.update(Page("", [rows(2)]))
    assert again[0] is first[0]
    assert changed[0].version != first[0].version


def test_what_is_shown_is_escaped() -> None:
    (part,) = Rendering(Place()).update(Page("", [rows(1)]))
    assert "&lt;b&gt;1&lt;/b&gt;" in part.html


def test_links_have_the_prefix_and_are_quoted() -> None:
    assert link("/admin/milepost", "/queue/a b?c", status=None, key="x&y") == (
        "/admin/milepost/queue/a%20b%3Fc?key=x%26y"
    )


def test_forms_are_hidden_in_read_only_mode() -> None:
    form = "{% from 'forms.html' import action_form with context %}{{ action_form('x', 'Do') }}"
    made = environment().from_string(form)
    common = {"link": lambda path: path, "here": "/", "csrf": "token"}
    assert 'value="token"' in made.render(common, is_read_only=False)
    assert made.render(common, is_read_only=True).strip() == ""


def test_numbers_for_people() -> None:
    assert [number(1234.0), number(None), rate(0), rate(2.34), rate(1234.5)] == [
        "1,234", "–", "0", "2.3", "1,234"  # noqa: RUF001 - an en dash
    ]  # fmt: skip


def test_an_error_page_shows_its_text_escaped() -> None:
    html = render("error.html", Place(), {"title": "t", "text": "<x>", "sections": {"/": "O"}})
    assert "&lt;x&gt;" in html
