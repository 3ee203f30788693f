"""The playground's page in a real browser: Chromium, headless, against a server on loopback.

With ``DERENDER_PICTURES=docs/pictures`` the pictures of the docs are written anew.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome, ChromeOptions, ChromeService
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from handlers.server import server_app
from handlers.settings import Settings
from tests.explain.test_answer import EXAMPLES, FOLDERS
from tests.support.serving import serving

KEY = "key-of-the-service"
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,1500",
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    options = ChromeOptions()
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = shutil.which("chromedriver")  # None: Selenium looks for one of its own
    with Chrome(options, ChromeService(driver) if driver else None) as browser:
        yield browser


@contextmanager
def playground(models_dir: Path, folder: str, **settings: Any) -> Iterator[str]:
    chosen = Settings(
        model=str(models_dir / folder), served_model_name=("m",), playground=True, work_processes=1, **settings
    )
    with serving(server_app(chosen)) as url:
        yield url


def status(browser: Chrome) -> str:
    return browser.find_element(By.ID, "status").text


def wait(browser: Chrome, start: str) -> None:
    WebDriverWait(browser, 120).until(lambda _: status(browser).startswith(start), f"{start}: {status(browser)}")


def texts(browser: Chrome, selector: str) -> list[str]:
    return [element.get_attribute("textContent") or "" for element in browser.find_elements(By.CSS_SELECTOR, selector)]


def shown(browser: Chrome, kind: str) -> str:
    """The output's tokens of a kind, in the first result."""
    return "".join(texts(browser, f".result:first-child .text:first-of-type .{kind} > .token")).replace("↵\n", "\n")


def asked_elsewhere(browser: Chrome, url: str) -> list[str]:
    """The addresses that the page asked and that are not the server's."""
    sent = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [one["params"]["request"]["url"] for one in sent if one["method"] == "Network.requestWillBeSent"]
    assert asked
    return [one for one in asked if not one.startswith((url, "data:", "chrome"))]


def picture(browser: Chrome, name: str) -> None:
    folder = os.environ.get("DERENDER_PICTURES")
    if folder:
        Path(folder).mkdir(exist_ok=True)
        browser.save_screenshot(str(Path(folder) / f"{name}.png"))


def scheme(browser: Chrome, value: str) -> None:
    features = {"features": [{"name": "prefers-color-scheme", "value": value}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", features)


@pytest.mark.parametrize("family", FOLDERS)
def test_every_family(models_dir: Path, browser: Chrome, family: str) -> None:
    """Its examples, picked and explained: names and arguments in their colours, nothing found, nothing asked elsewhere."""
    with playground(models_dir, FOLDERS[family]) as url:
        browser.get(f"{url}/playground")
        wait(browser, "Ready")
        assert browser.find_element(By.ID, "model").text == "m"
        for example in (one for one in EXAMPLES if one["title"].lower().startswith(family)):
            Select(browser.find_element(By.ID, "example")).select_by_visible_text(example["title"])
            browser.find_element(By.CSS_SELECTOR, "button[type=submit]").click()
            wait(browser, "Done: A 0 findings.")
            assert "get_weather" in shown(browser, "name")
            assert "Paris" in shown(browser, "arguments")
            assert '"days": 3' in shown(browser, "arguments") or "3" in shown(browser, "arguments")
            whole = json.loads(texts(browser, ".whole")[0])
            assert whole["tool_calls"][0]["name"] == "get_weather"
            assert texts(browser, "p.findings") == ["Nothing found."]
            assert texts(browser, "p.lost")[0].startswith("Every word")
            # A row for each token; the state's size in each.
            rows = browser.find_elements(By.CSS_SELECTOR, ".result tbody tr")
            assert len(rows) == len(texts(browser, ".result:first-child .text:first-of-type .token"))
            assert all(int(size) > 100 for size in texts(browser, ".result tbody td:last-child"))
            browser.execute_script("arguments[0].textContent = ''", browser.find_element(By.ID, "status"))
        assert asked_elsewhere(browser, url) == []
        assert [
            entry
            for entry in browser.get_log("browser")
            if entry["level"] == "SEVERE" and "favicon" not in entry["message"]
        ] == []


def test_two_configurations_by_keyboard(models_dir: Path, browser: Chrome) -> None:
    """Nothing but keys: an API key, an example, a second configuration; its differences are marked and said."""
    scheme(browser, "light")
    with playground(models_dir, "qwen3", api_key=(KEY,)) as url:
        browser.get(f"{url}/playground")
        wait(browser, "No choices: a valid API key is required")
        browser.find_element(By.ID, "example").send_keys(Keys.TAB)
        assert browser.switch_to.active_element.get_attribute("id") == "key"
        browser.switch_to.active_element.send_keys(KEY, Keys.TAB)
        wait(browser, "Ready")
        browser.find_element(By.ID, "example").send_keys("Qwen 3: r")
        reached = {"compare": False, "tool": False}
        compare = browser.find_element(By.ID, "compare")
        for _ in range(20):  # from field to field, as far as the second configuration
            browser.switch_to.active_element.send_keys(Keys.TAB)
            if browser.switch_to.active_element == compare:
                browser.switch_to.active_element.send_keys(Keys.SPACE, Keys.TAB)
                reached["compare"] = compare.is_selected()
                browser.switch_to.active_element.send_keys("pythonic", Keys.TAB, "qwen3")
                reached["tool"] = True
                browser.switch_to.active_element.send_keys(Keys.TAB)
            if browser.switch_to.active_element.get_attribute("type") == "submit":
                browser.switch_to.active_element.send_keys(Keys.ENTER)
                break
        assert reached == {"compare": True, "tool": True}
        wait(browser, "Done: A 0 findings, B 1 findings.")
        assert len(browser.find_elements(By.CSS_SELECTOR, ".result")) == 2
        differing = texts(browser, ".result:first-child .token.differs")
        assert any("get" in text for text in differing)
        assert all(text.endswith("(read otherwise) ") for text in differing)
        assert texts(browser, "p.compared")[0].startswith(f"{len(differing)} of ")
        assert texts(browser, "ul.findings li") == ["markup: a marker of the model stands in what a client sees"]
        picture(browser, "playground-light")
        light = browser.find_element(By.TAG_NAME, "body").value_of_css_property("background-color")
        scheme(browser, "dark")
        assert browser.find_element(By.TAG_NAME, "body").value_of_css_property("background-color") != light
        picture(browser, "playground-dark")
        scheme(browser, "light")


def test_a_screen_reader_has_names_for_all(models_dir: Path, browser: Chrome) -> None:
    """Every control has a name, every run of tokens says what it is, the status is announced."""
    with playground(models_dir, "qwen3") as url:
        browser.get(f"{url}/playground")
        wait(browser, "Ready")
        controls = browser.find_elements(By.CSS_SELECTOR, "input, select, textarea, button, fieldset")
        assert len(controls) > 15
        assert [control.get_attribute("outerHTML") for control in controls if not control.accessible_name] == []
        assert browser.find_element(By.ID, "status").aria_role == "status"
        assert browser.find_element(By.TAG_NAME, "html").get_attribute("lang") == "en"
        browser.find_element(By.ID, "output").send_keys("<think>hm</think>Hi<|im_end|>")
        configuration = browser.find_element(By.CSS_SELECTOR, '[data-side="a"]')
        Select(configuration.find_element(By.NAME, "reasoning_parser")).select_by_visible_text("qwen3")
        Select(configuration.find_element(By.NAME, "tool_call_parser")).select_by_visible_text("hermes")
        browser.find_element(By.CSS_SELECTOR, "button[type=submit]").click()
        wait(browser, "Done")
        heard = texts(browser, ".result .text:first-of-type .run > .only-heard")
        assert heard[:4] == [" markup: ", " reasoning: ", " markup: ", " content: "]


def test_what_is_hostile_is_text(models_dir: Path, browser: Chrome) -> None:
    """An output that is HTML is shown, not read; a request that is no JSON and one that fails are said."""
    attack = '<img src=x onerror="document.title=1"><script>document.title=2</script>'
    with playground(models_dir, "qwen3") as url:
        browser.get(f"{url}/playground")
        wait(browser, "Ready")
        browser.find_element(By.ID, "output").send_keys(attack)
        request = browser.find_element(By.ID, "request")
        request.clear()
        request.send_keys(json.dumps({"messages": [{"role": "user", "content": attack}]}))
        browser.find_element(By.CSS_SELECTOR, "button[type=submit]").click()
        wait(browser, "Done")
        assert browser.title == "derender playground"
        assert browser.find_elements(By.CSS_SELECTOR, "#results img, #results script") == []
        assert attack in shown(browser, "content")
        request.clear()
        request.send_keys("{")
        browser.find_element(By.CSS_SELECTOR, "button[type=submit]").click()
        wait(browser, "It failed: ")
        request.clear()
        request.send_keys('{"messages": "x"}')
        browser.find_element(By.CSS_SELECTOR, "button[type=submit]").click()
        wait(browser, "Done: A failed")
        assert "messages" in texts(browser, ".result .problem")[0]
