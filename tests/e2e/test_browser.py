"""The whole way in a browser: log in, fill in the trigger form, follow the run to its end, open the dashboard.

Pictures go to the test's folder; with ``PLIMSOLL_KEEP_PICTURES=1`` also to ``docs/pictures``.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import FrameLocator, Page, expect, sync_playwright

from stack.airflow_api import ApiError, quoted, request
from stack.installation import REPO
from tests.support.live_run import LiveRun
from tests.support.real_stack import RealStack

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(700)]
_PICTURES = REPO / "docs" / "pictures"
_KEEP_PICTURES = os.environ.get("PLIMSOLL_KEEP_PICTURES") == "1"
_FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
_SLOW_PAGE_MS = 30_000
_RUN_MS = 300_000


def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    assert found, "chromium is not installed: `apt-get install -y chromium` (.ci/run does it)"
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Browser:
    """A page of a person who is logged in.

    Attributes:
        page: The page.
        stack: What it looks at.
        folder: Where pictures go.
    """

    page: Page
    stack: RealStack
    folder: Path

    def open(self, path: str) -> None:
        self.page.goto(self.stack.url + path)

    def picture(self, name: str) -> None:
        path = self.folder / f"{name}.png"
        self.page.screenshot(path=path)
        if _KEEP_PICTURES:
            _PICTURES.mkdir(exist_ok=True)
            shutil.copy(path, _PICTURES)

    def dashboard(self) -> FrameLocator:
        """The dashboard, inside the frame that Airflow gives to a plugin."""
        return self.page.frame_locator("iframe").first


@pytest.fixture
def browser(stack: RealStack, tmp_path: Path) -> Iterator[Browser]:
    with sync_playwright() as driver:
        program = driver.chromium.launch(executable_path=chromium(), args=list(_FLAGS))
        page = program.new_page(viewport={"width": 1400, "height": 1000})
        page.set_default_timeout(_SLOW_PAGE_MS)
        expect.set_options(timeout=_SLOW_PAGE_MS)
        page.goto(stack.url)
        page.locator("input[name=username]").fill("admin")
        page.locator("input[name=password]").fill(stack.password("admin"))
        page.keyboard.press("Enter")
        expect(page.get_by_role("link", name="Dags", exact=True)).to_be_visible()
        yield Browser(page=page, stack=stack, folder=tmp_path)
        program.close()


def fill_in_the_form(page: Page, *, plan_only: bool) -> None:
    page.get_by_role("button", name="Trigger").first.click()
    form = page.get_by_role("dialog")
    form.get_by_role("button", name="Limits").click()
    form.locator("input[name=element_budget_usd]").fill("0.75")
    form.locator("input[name=element_deadline_h]").fill("2")
    form.get_by_role("button", name="Plan", exact=True).click()
    form.locator("#element_objective").first.click()
    page.get_by_role("option", name="time").click()
    if plan_only:
        form.locator("label", has=page.locator("input[name=element_plan_only]")).click()


def trigger(browser: Browser) -> LiveRun:
    """Send the form that is open."""
    page = browser.page
    with page.expect_response(
        lambda answer: answer.request.method == "POST" and answer.url.endswith("/dagRuns")
    ) as answered:
        page.get_by_role("dialog").get_by_role("button", name="Trigger").click()
    return LiveRun(stack=browser.stack, dag_id="form", run_id=answered.value.json()["dag_run_id"])


def from_the_form_to_its_end(browser: Browser, *, plan_only: bool) -> LiveRun:
    """Fill in the form, send it, follow the run on its page until it shows success."""
    page, stack = browser.page, browser.stack
    stack.ready("form")
    before = {run["dag_run_id"] for run in stack.api().pages("/api/v2/dags/form/dagRuns", "dag_runs")}
    browser.open("/dags/form")
    fill_in_the_form(page, plan_only=plan_only)
    browser.picture("trigger-form")
    run = trigger(browser)
    assert run.run_id not in before
    browser.open(f"/dags/form/runs/{quoted(run.run_id)}")
    badge = page.get_by_test_id("header-card").get_by_test_id("state-badge")
    expect(badge).to_have_text("Success", timeout=_RUN_MS)
    assert run.state() == "success"
    options = stack.store().get_json(f"{run.prefix}/run.json")["options"]
    assert (options["budget_usd"], options["deadline_h"], options["objective"]) == (0.75, 2, "time")
    assert options["plan_only"] is plan_only
    return run


def open_the_run_tab(browser: Browser, run: LiveRun) -> FrameLocator:
    browser.page.get_by_role("link", name="Cost & carbon").click()
    tab = browser.dashboard()
    expect(tab.get_by_role("heading", name=f"form / {run.run_id}")).to_be_visible()
    return tab


def test_from_the_form_to_a_plan_and_the_dashboard(browser):
    run = from_the_form_to_its_end(browser, plan_only=True)
    states = run.task_states()
    assert (states["plan"], states["training.train"]) == ("success", "skipped")
    assert run.leases("train") == ()
    tab = open_the_run_tab(browser, run)
    expect(tab.locator("tr.chosen").first).to_be_visible()
    assert_in_the_list_of_runs(browser, run)


@pytest.mark.long
def test_from_the_form_to_a_model_and_the_dashboard(browser):
    run = from_the_form_to_its_end(browser, plan_only=False)
    tab = open_the_run_tab(browser, run)
    expect(tab.get_by_text("onnx-fp32").first).to_be_visible()
    assert_figures(tab)
    run.assert_nothing_left("train", "work")
    assert_in_the_list_of_runs(browser, run)


def assert_in_the_list_of_runs(browser: Browser, run: LiveRun) -> None:
    browser.page.get_by_role("button", name="Browse").click()
    browser.page.get_by_role("menuitem", name="Plimsoll").click()
    expect(browser.dashboard().get_by_role("link", name=run.run_id)).to_be_visible()


def assert_figures(tab: FrameLocator) -> None:
    """Cost, energy and carbon are numbers, with the method beside them."""
    for name in ("Cost, USD", "Energy, kWh", "Carbon, gCO2e"):
        tile = tab.locator(".tile", has_text=name)
        assert float(tile.locator("b").inner_text()) > 0
    expect(tab.locator(".tile", has_text="Cost, USD").locator("small")).to_contain_text("estimated")


def test_the_runs_tab_shows_the_plan_the_candidates_and_the_picture(browser, digits_run):
    found = digits_run.summary
    browser.open(f"/dags/digits/runs/{quoted(found.run_id)}/plugin/plimsoll-run")
    tab = browser.dashboard()
    assert_figures(tab)
    chosen = tab.locator("tr.chosen", has_text=found.chosen)
    expect(chosen).to_be_visible()
    for card in found.candidates:
        expect(tab.get_by_role("cell", name=card.recipe, exact=True)).to_be_visible()
    expect(tab.locator(".tile", has_text="Interruptions").locator("b")).to_have_text(str(found.interruptions))
    picture = tab.frame_locator("iframe[title='Pareto picture']")
    expect(picture.locator("svg").first).to_be_visible()
    expect(picture.get_by_text(f"{found.chosen} chosen")).to_be_visible()
    browser.picture("cost-and-carbon")
    tab.locator("iframe[title='Pareto picture']").scroll_into_view_if_needed()
    browser.picture("pareto")


@pytest.mark.parametrize("path", ["/plimsoll/", "/plimsoll/api/runs", "/plimsoll/api/run?dag_id=d&run_id=r"])
def test_strangers_are_refused(stack, path):
    status, text = request("GET", stack.url + path)
    assert status in (401, 403)
    assert "Plimsoll</title>" not in text


@pytest.mark.parametrize("path", ["/plimsoll/docs", "/plimsoll/openapi.json"])
def test_the_dashboard_has_no_open_description_of_itself(stack, path):
    status, text = request("GET", stack.url + path)
    assert status in (401, 403, 404), text


def test_a_viewer_may_look_and_may_not_start_a_run(stack):
    viewer = stack.api("viewer")
    assert isinstance(viewer.call("GET", "/plimsoll/api/runs"), list)
    with pytest.raises(ApiError) as refused:
        viewer.trigger("form", {})
    assert refused.value.status == 403
