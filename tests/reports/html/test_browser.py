"""The page in a real browser: nothing fails, nothing is fetched, keyboard and screen reader reach all of it, on a phone too."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from whichloop.experiments.compare.several_runs import collect
from whichloop.reports.html.page import collection_html, report_html

BROWSER, DRIVER = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
)

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(BROWSER is None or DRIVER is None, reason="no Chromium with its driver here"),
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
    made = {
        "report": report_html(breeze),
        "one": report_html(calm),
        "hostile": report_html(spoiled(breeze, hostile)),
        "long": report_html(spoiled(breeze, "_and_a_name_that_goes_on" * 4)),
        "several": collection_html(collect([breeze, calm])),
    }
    for name, text in made.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in made}


@pytest.fixture
def shown(browser, pages) -> Callable[..., webdriver.Chrome]:
    """Loads a page, `width` pixels wide; what earlier pages logged is forgotten."""

    def show(name: str, width: int = 1280, **media: str) -> Any:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        features = [{"name": feature.replace("_", "-"), "value": value} for feature, value in media.items()]
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        for log in ("browser", "performance"):
            browser.get_log(log)
        browser.get(pages[name].as_uri())
        return browser

    return show


def unfold(browser: webdriver.Chrome) -> None:
    browser.execute_script("document.querySelectorAll('details').forEach((each) => { each.open = true })")


@pytest.mark.parametrize("name", ["report", "one", "hostile", "several"])
def test_nothing_is_logged_fetched_or_alerted(shown, pages, name):
    browser = shown(name)
    unfold(browser)
    assert browser.get_log("browser") == []
    sent = [entry["message"] for entry in browser.get_log("performance") if '"Network.requestWillBeSent"' in entry["message"]]
    assert sent
    assert all(f'"url":"{pages[name].as_uri()}"' in message or '"url":"data:,"' in message for message in sent)
    assert browser.execute_script("return document.title") == browser.find_element(By.TAG_NAME, "h1").text  # no alert is open


def test_the_policy_lets_no_foreign_style_or_script_through(shown):
    browser = shown("report")
    browser.execute_script(
        "const made = document.createElement('script'); made.textContent = 'window.broken = 1'; document.body.append(made);"
        "const image = document.createElement('img'); image.src = 'http://127.0.0.1:9/x.png'; document.body.append(image);"
    )
    assert browser.execute_script("return window.broken") is None
    refused = [entry["message"] for entry in browser.get_log("browser")]
    assert any("script-src" in message for message in refused)
    assert any("img-src" in message for message in refused)


@pytest.mark.parametrize("name", ["report", "long", "hostile", "several"])
def test_a_phone_shows_all_without_scrolling_the_page_sideways(shown, name):
    browser = shown(name, width=360)
    unfold(browser)
    assert browser.execute_script("return document.documentElement.scrollWidth") == 360
    wide = browser.execute_script(
        "return [...document.querySelectorAll('main *')].filter((each) => !each.closest('.scroll, svg')"
        " && each.getBoundingClientRect().right > 361).map((each) => each.outerHTML.slice(0, 200))"
    )
    assert wide == []


def test_dark_mode_turns_the_page_and_its_charts(shown):
    def colours(**media: str) -> tuple[str, str]:
        browser = shown("report", **media)
        script = "return [getComputedStyle(document.body).backgroundColor, getComputedStyle(document.querySelector('.label')).fill]"
        background, label = browser.execute_script(script)
        return background, label

    light, dark = colours(prefers_color_scheme="light"), colours(prefers_color_scheme="dark")
    assert light == ("rgb(255, 255, 255)", "rgb(27, 31, 36)")
    assert dark == ("rgb(20, 23, 26)", "rgb(230, 232, 234)")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(shown, scheme):
    """Contrast of at least 4.5 (WCAG 2.2, 1.4.3), of text outside of charts."""
    browser = shown("report", prefers_color_scheme=scheme)
    unfold(browser)
    pairs = browser.execute_script(
        "const ground = (each) => { for (let at = each; at; at = at.parentElement) {"
        " const found = getComputedStyle(at).backgroundColor; if (found !== 'rgba(0, 0, 0, 0)') return found; } };"
        "return [...document.querySelectorAll('main *, nav a, header *')].filter((each) => !each.closest('svg')"
        " && [...each.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim()))"
        ".map((each) => [getComputedStyle(each).color, ground(each), each.outerHTML.slice(0, 80)])"
    )
    assert len(pairs) > 100
    weak = [pair for pair in pairs if contrast(pair[0], pair[1]) < 4.5]
    assert weak == []


def contrast(one: str, two: str) -> float:
    """Of two colours `rgb(r, g, b)`."""
    dark, light = sorted(luminance(colour) for colour in (one, two))
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    """Relative, of WCAG."""
    shares = [int(part) / 255 for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
    red, green, blue = (share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


# --- keyboard ---


def test_tab_reaches_skip_link_contents_sort_buttons_tables_and_what_is_folded(shown):
    browser = shown("report")
    reached: list[str] = []
    for _ in range(600):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        at = browser.execute_script(
            "const at = document.activeElement;"
            "return at.tagName + '.' + at.className + (at.closest('th') ? ' sort' : '') + (at.closest('nav') ? ' nav' : '')"
        )
        if at.startswith("BODY"):
            break
        reached.append(at)
    assert reached[0] == "A.skip"
    assert reached[1] == "A. nav"
    counts = browser.execute_script(
        "return ['th button', 'summary', '.scroll'].map((each) => [...document.querySelectorAll(each)]"
        ".filter((found) => !found.closest('details:not([open]) > :not(summary)')).length)"
    )
    assert [sum(at.endswith("sort") for at in reached), sum(at.startswith("SUMMARY") for at in reached)] == counts[:2]
    assert sum(at.startswith("DIV.scroll") for at in reached) == counts[2]
    assert min(counts) > 3


def test_the_skip_link_leads_past_the_contents(shown):
    browser = shown("report")
    browser.switch_to.active_element.send_keys(Keys.TAB)
    skip = browser.switch_to.active_element
    assert skip.text == "Skip to the report"
    assert skip.location["y"] >= 0
    skip.send_keys(Keys.ENTER)
    assert browser.execute_script("return document.activeElement.id") == "main"


def column(browser: webdriver.Chrome, table: Any, place: int) -> list[str]:
    script = "return [...arguments[0].tBodies[0].rows].map((row) => row.cells[arguments[1]].textContent.trim())"
    found: list[str] = browser.execute_script(script, table, place)
    return found


def test_a_table_is_sorted_by_its_head_and_says_so(shown):
    browser = shown("report")
    table = browser.find_element(By.CSS_SELECTOR, "#arms table")
    heads = table.find_elements(By.CSS_SELECTOR, "thead th")
    names = [head.text.split()[0] for head in heads]
    for place in (0, names.index("accuracy"), names.index("tokens")):
        before = column(browser, table, place)
        key: Callable[[str], Any] = str if place == 0 else lambda text: float(text.split()[0])
        button = heads[place].find_element(By.TAG_NAME, "button")
        button.send_keys(Keys.ENTER)
        assert column(browser, table, place) == sorted(before, key=key)
        assert heads[place].get_attribute("aria-sort") == "ascending"
        button.send_keys(Keys.SPACE)
        assert [key(text) for text in column(browser, table, place)] == sorted(map(key, before), reverse=True)
        assert heads[place].get_attribute("aria-sort") == "descending"
        assert sum(head.get_attribute("aria-sort") is not None for head in heads) == 1


def test_what_is_not_known_is_sorted_to_the_end_whatever_stands_beside_it(shown):
    browser = shown("report")
    table = browser.find_element(By.CSS_SELECTOR, "#recovery table")
    heads = table.find_elements(By.CSS_SELECTOR, "thead th")
    place = [head.text.split()[0] for head in heads].index("react_extract")
    unknown = [text for text in column(browser, table, place) if text.startswith("–")]
    assert any(text.endswith("absorbed") for text in unknown)
    for _ in ("ascending", "descending"):
        heads[place].find_element(By.TAG_NAME, "button").send_keys(Keys.ENTER)
        assert sorted(column(browser, table, place)[-len(unknown) :]) == sorted(unknown)


def test_a_link_opens_what_it_leads_to(shown):
    browser = shown("report")
    unfold(browser)
    link = browser.find_element(By.LINK_TEXT, "side by side")
    target = browser.find_element(By.ID, str(link.get_attribute("href")).partition("#")[2])
    browser.execute_script("arguments[0].open = false", target)
    link.send_keys(Keys.ENTER)
    assert target.get_attribute("open") is not None
    assert "Here they part" in target.text


# --- screen reader ---


def test_all_that_is_there_has_a_name(shown):
    browser = shown("report")
    unfold(browser)
    nodes = browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    names: dict[str, list[str]] = {}
    for node in nodes:
        if not node.get("ignored"):
            names.setdefault(node["role"]["value"], []).append(node.get("name", {}).get("value", ""))
    for role in ("link", "button", "heading", "image", "table", "columnheader", "rowheader", "region", "navigation"):
        assert names[role], role
        assert all(name.strip() for name in names[role]), role
    assert {"main", "banner"} <= set(names)
    assert "Accuracy of each arm" in names["image"]
    charts = browser.find_elements(By.CSS_SELECTOR, "svg.chart")
    assert len(names["image"]) == len(charts)


# --- paper, and no script ---


def test_on_paper_nothing_is_cut_off_and_the_contents_are_gone(browser, shown):
    shown("report")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    script = (
        "const of = (name) => getComputedStyle(document.querySelector(name)); return [of('nav').display, of('.scroll').overflow]"
    )
    assert browser.execute_script(script) == ["none", "visible"]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_without_scripts_all_is_there_but_the_sort_buttons(browser, shown):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        shown("report")
        assert len(browser.find_elements(By.CSS_SELECTOR, "th button")) == 0
        assert len(browser.find_elements(By.CSS_SELECTOR, "svg.chart")) >= 4
        assert "Nothing is decided: " in browser.find_element(By.ID, "verdict").text
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


# --- wide tables ---


def test_a_table_that_is_wider_than_its_place_says_so_until_its_end_is_reached(browser, shown):
    shown("report", 390)
    box = browser.find_element(By.CSS_SELECTOR, "#arms .scroll")
    hint = browser.find_element(By.CSS_SELECTOR, "#arms .scroll + .more")
    WebDriverWait(browser, 10).until(lambda _: "scroll sideways" in hint.text)  # the page looks at its width after it is shown
    assert "right" in str(box.get_attribute("class")).split()
    browser.execute_script("arguments[0].scrollLeft = arguments[0].scrollWidth", box)
    WebDriverWait(browser, 10).until(lambda _: "right" not in str(box.get_attribute("class")).split())
    wide = shown("one", 1280).find_element(By.CSS_SELECTOR, "#verdict .scroll + .more")
    assert not wide.is_displayed()
