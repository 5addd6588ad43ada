"""Links of the documents lead somewhere, and commands that they name exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[1]
PAGES = sorted(
    [REPO / "README.md", REPO / "CHANGELOG.md", *(REPO / "docs").rglob("*.md"), *(REPO / "terraform").rglob("*.md")]
)
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
TARGET = re.compile(r"`?\bmake ([a-z-]+)\b")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPO)))
def test_links_lead_somewhere(page: Path) -> None:
    targets = [link for link in LINK.findall(page.read_text()) if "://" not in link]
    broken = [link for link in targets if not (page.parent / link).exists()]
    assert broken == []


def test_every_make_target_in_the_documents_exists() -> None:
    known = set(re.findall(r"^([a-z-]+):", (REPO / "Makefile").read_text(), re.MULTILINE))
    named = {
        target
        for page in PAGES
        for block in re.findall(r"`[^`\n]+`|^\$ .*$", page.read_text(), re.MULTILINE)
        for target in TARGET.findall(block)
    }
    assert named
    assert named <= known


def test_public_words_are_in_the_glossary() -> None:
    glossary = (REPO / "docs" / "glossary.md").read_text()
    for word in ("workload", "demand", "offer", "layout", "plan", "lease", "attempt", "recipe", "verdict", "charge"):
        assert f"| {word} |" in glossary, word


def test_the_workload_in_the_how_to_is_valid(tmp_path: Path) -> None:
    from include.config.loader import load_workload

    page = (REPO / "docs" / "how-to" / "write-a-workload.md").read_text()
    [example] = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    path = tmp_path / "churn.yaml"
    path.write_text(example)
    assert load_workload(path).name == "churn"
