"""The page in a browser: search, keyboard, links, colours, and how long a large one takes to open."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import onnxport

BROWSER = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))), None)

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
if BROWSER is None:
    pytest.skip("no Chromium is installed", allow_module_level=True)


class Deep(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(1500):
            x = torch.sin(x) + x
        return x


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("pages")
    model = nn.Sequential(nn.Sequential(nn.Linear(4, 4), nn.ELU()), nn.Sequential(nn.Linear(4, 4), nn.Tanh()))
    onnxport.export(model, torch.randn(2, 4), made / "small.onnx", report=True)
    onnxport.export(Deep(), torch.randn(2, 3), made / "deep.onnx", verify=False, report=True)
    return made


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        launched = started.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page without a network, on which any message on the console is an error."""
    context = browser.new_context(offline=True)
    opened = context.new_page()
    messages: list[str] = []
    opened.on("console", lambda message: messages.append(message.text))
    opened.on("pageerror", lambda error: messages.append(str(error)))
    yield opened
    context.close()
    assert not messages


def visible(page: Any) -> list[str]:
    return [node.get_attribute("data-op") for node in page.query_selector_all("li[data-op]") if node.is_visible()]


def test_search_by_keyboard(page: Any, folder: Path) -> None:
    page.goto((folder / "small.html").as_uri())
    assert visible(page) == []
    page.keyboard.press("/")
    page.keyboard.type("elu alpha")
    assert visible(page) == ["Elu"] and page.locator("[role=status]").inner_text() == "1 of 4 nodes"
    page.keyboard.press("Escape")
    assert page.locator("[role=status]").inner_text() == "" and len(visible(page)) >= 1


def test_modules_open_by_keyboard(page: Any, folder: Path) -> None:
    page.goto((folder / "small.html").as_uri())
    page.locator("details[data-module='1'] > summary").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert visible(page) == ["Gemm"]


def test_a_link_to_a_node_opens_its_modules(page: Any, folder: Path) -> None:
    page.goto((folder / "small.html").as_uri())
    name = page.locator("li[data-op='Tanh']").get_attribute("id")
    page.goto(f"{(folder / 'small.html').as_uri()}#{name}")
    assert visible(page) == ["Tanh"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_colours_are_those_of_the_system(browser: Any, folder: Path, scheme: str) -> None:
    page = browser.new_page(color_scheme=scheme)
    page.goto((folder / "small.html").as_uri())
    colours = page.evaluate("[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]")
    lightness = [sum(map(int, colour[4:-1].split(","))) for colour in colours]
    assert (lightness[0] > lightness[1]) == (scheme == "light")
    page.close()


def test_without_a_script_all_is_there(browser: Any, folder: Path) -> None:
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto((folder / "small.html").as_uri())
    for module in ("1", "1.1"):
        page.locator(f"details[data-module='{module}'] > summary").click()
    assert visible(page) == ["Tanh"] and "passed" in page.locator("#verdict").inner_text().lower()


def test_three_thousand_nodes_open_and_are_searched_in_two_seconds(page: Any, folder: Path) -> None:
    start = time.perf_counter()
    page.goto((folder / "deep.html").as_uri())
    page.keyboard.press("/")
    page.keyboard.insert_text("sin_700")
    assert page.locator("[role=status]").inner_text().endswith("of 3000 nodes")
    assert time.perf_counter() - start < 2
