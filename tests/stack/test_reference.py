"""The generated pages are those of the code as it is."""

import pytest

from stack import reference
from stack.installation import REPO

FOLDER = REPO / "docs" / "reference"
PAGES = reference.pages()


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_current(name):
    assert (FOLDER / name).read_text(encoding="utf-8") == PAGES[name], "run `make docs`"


def test_no_page_shows_where_this_tree_lies():
    assert not [name for name, text in PAGES.items() if str(REPO) in text]


def test_every_module_says_what_it_is_for():
    silent = [line for line in PAGES["file-map.md"].splitlines() if line.startswith("| `") and line.endswith("|  |")]
    assert silent == []


def test_every_setting_is_described():
    rows = [line.split("|") for line in PAGES["settings.md"].splitlines() if line.startswith("| `PLIMSOLL_")]
    assert len(rows) > 20
    assert [row[1] for row in rows if not row[3].strip()] == []


def test_the_keys_of_the_summary_are_all_there():
    text = PAGES["last-run.md"]
    for key in ("steps_lost", "endpoint_agrees", "leases_left", "size_ratio", "gco2e", "created"):
        assert f"| `{key}` |" in text
