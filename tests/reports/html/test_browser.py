"""Pages in a real browser, on a desk and on a phone, in the light and in the dark: nothing fails, overflows or is fetched."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from whichloop.experiments.compare.several_runs import collect
from whichloop.reports.html.page import collection_html, report_html

BROWSER, DRIVER = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars")
NAMES = ("report", "one", "hostile", "long", "several")
OUTSIDE = """
return [...document.querySelectorAll('main *')].filter((each) => {
  const box = each.getBoundingClientRect();
  return box.width && !each.closest('.scroll, svg') && (box.right > innerWidth + 1 || box.left < -1);
}).map((each) => each.outerHTML.slice(0, 200))
"""

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(BROWSER is None or DRIVER is None, reason="no Chromium with its driver: make browser installs it"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = str(BROWSER)
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options, Service(str(DRIVER)))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def pages(tmp_path_factory, breeze, calm, spoiled, hostile) -> dict[str, Path]:
    """Files by name."""
    folder = tmp_path_factory.mktemp("pages")
    runs = (breeze, calm, spoiled(breeze, hostile), spoiled(breeze, "_and_a_name_that_goes_on" * 4))
    texts = dict(zip(NAMES, [*map(report_html, runs), collection_html(collect([breeze, calm]))], strict=True))
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in texts}


@pytest.fixture
def shown(browser, pages) -> Callable[..., webdriver.Chrome]:
    """Loads a page, `width` pixels wide, and opens its details; what earlier pages logged is forgotten."""

    def show(name: str, width: int = 1280, scheme: str = "light") -> Any:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": features})
        for log in ("browser", "performance"):
            browser.get_log(log)
        browser.get(pages[name].as_uri())
        for summary in browser.find_elements(By.CSS_SELECTOR, "summary"):
            summary.send_keys(Keys.ENTER)  # by keyboard, an outer one before those within
        return browser

    return show


@pytest.mark.parametrize(("name", "width", "scheme"), [*zip(NAMES, cycle([1280, 390]), ["light", "dark", "dark", "light", "dark"])])
def test_all_is_shown_in_its_place_and_nothing_is_logged_or_fetched(shown, pages, name, width, scheme):
    browser = shown(name, width, scheme)
    assert browser.execute_script("return document.documentElement.scrollWidth") == width
    assert browser.execute_script(OUTSIDE) == []
    assert browser.execute_script("return [...document.querySelectorAll('details:not([open])')].length") == 0
    charts = browser.find_elements(By.CSS_SELECTOR, "svg.chart")
    assert charts
    assert all(chart.is_displayed() and chart.size["height"] > 40 for chart in charts)
    assert browser.get_log("browser") == []
    sent = [entry["message"] for entry in browser.get_log("performance") if '"Network.requestWillBeSent"' in entry["message"]]
    assert sent
    assert all(f'"url":"{pages[name].as_uri()}"' in message or '"url":"data:,"' in message for message in sent)


def test_the_policy_lets_no_foreign_style_or_script_through(shown):
    browser = shown("report")
    browser.execute_script(
        "const made = document.createElement('script'); made.textContent = 'window.broken = 1'; document.body.append(made);"
        "const image = document.createElement('img'); image.src = 'http://127.0.0.1:9/x.png'; document.body.append(image);"
    )
    assert browser.execute_script("return window.broken") is None
    refused = [entry["message"] for entry in browser.get_log("browser")]
    assert all(any(kind in message for message in refused) for kind in ("script-src", "img-src"))


def test_a_table_is_sorted_by_its_head_and_says_so(shown):
    browser = shown("report")
    table = browser.find_element(By.CSS_SELECTOR, "table[aria-label=Arms]")
    heads = table.find_elements(By.CSS_SELECTOR, "thead th")
    cells = "return [...arguments[0].tBodies[0].rows].map((row) => row.cells[arguments[1]].textContent.trim())"
    keys: dict[int, Callable[[str], Any]] = {0: str, 4: lambda text: float(text.split()[0])}
    for place, key in keys.items():
        before = browser.execute_script(cells, table, place)
        for order, is_turned in (("ascending", False), ("descending", True)):
            heads[place].find_element(By.TAG_NAME, "button").send_keys(Keys.ENTER)
            assert list(map(key, browser.execute_script(cells, table, place))) == sorted(map(key, before), reverse=is_turned)
            assert [head.get_attribute("aria-sort") for head in heads if head.get_attribute("aria-sort")] == [order]
