"""A real JupyterLab on copies of the lessons, and a page in Chromium that is watched.

A browser test takes `open_notebook`, and `page` and `watch` where it needs them:

    def test_slider(open_notebook: OpenNotebook, page: Page) -> None:
        open_notebook("01_single_alarm")
        run_all_cells(page)

JupyterLab starts once, as `tools/do.py lab` starts it. Each test works on copies of its own, as a learner has them:
without outputs. No request may leave the machine. A failed test leaves a picture and the page's messages in
test-results/.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Error, Page, Request, WebSocket, sync_playwright
from playwright.sync_api import TimeoutError as PlaywrightTimeoutError

from tools.environment import ROOT
from tools.jupyter_settings import jupyter_environment, lab_command
from tools.lessons import LESSONS, copy_lessons
from tools.stages import HOW_TO_GET_CHROMIUM, find_chromium, in_ci

OpenNotebook = Callable[[str], Page]

RESULTS = ROOT / "test-results"
_FAILED = pytest.StashKey[bool]()

_START_TIMEOUT_S = 60
_READY_TIMEOUT_MS = 60_000
_CONNECTED_TIMEOUT_MS = 30_000

_CHROMIUM_ARGUMENTS = [
    "--headless",
    "--no-sandbox",  # a container often has no other user than root, and root gets no sandbox
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Nothing leaves the machine even where a page tries to; that it tried is seen in the page's requests.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1",
]

_IDLE = '.jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook-ExecutionIndicator[data-status="idle"]'


@dataclass(frozen=True)
class LabServer:
    """A running JupyterLab: its address, its key, and the folder it shows."""

    url: str
    token: str
    folder: Path


@dataclass
class Watch:
    """What a page asked for and complained about."""

    requests: list[str] = field(default_factory=list)
    comm_messages: int = 0
    """Messages of widgets to the kernel."""

    console_errors: list[str] = field(default_factory=list)
    page_errors: list[str] = field(default_factory=list)

    @property
    def asked(self) -> list[str]:
        """The requests, but for JupyterLab's own: every ten seconds it asks for the lists that its side bar shows."""
        return [url for url in self.requests if not _POLLED.search(url)]

    @property
    def outside(self) -> list[str]:
        """The requests that left the machine, or would have."""
        return [url for url in self.requests if not _is_here(url)]


_POLLED: Final = re.compile(r"/api/(kernels|sessions|terminals|kernelspecs|contents)\?")


def _is_here(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme in ("about", "blob", "data") or parts.hostname in ("127.0.0.1", "localhost")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember on the test whether it failed, for the fixtures that clean up after it."""
    report = yield
    if report.failed:
        item.stash[_FAILED] = True
    return report


def _wait_for_server(process: subprocess.Popen[bytes], runtime: Path, log: Path, folder: Path) -> LabServer:
    """JupyterLab takes a free port by itself and leaves its address in a file."""
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline:
        for found in runtime.glob("jpserver-*.json"):
            # It may be half written.
            with suppress(ValueError, KeyError):
                about = json.loads(found.read_text(encoding="utf-8"))
                return LabServer(f"http://127.0.0.1:{about['port']}{about['base_url']}", about["token"], folder)
        if process.poll() is not None:
            break
        time.sleep(0.1)
    pytest.fail(
        f"JupyterLab did not start; the end of {log}:\n{log.read_text(encoding='utf-8', errors='replace')[-2000:]}"
    )


@pytest.fixture(scope="session")
def lab_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    """JupyterLab as a learner gets it, on a folder that is empty at first."""
    folder = tmp_path_factory.mktemp("lessons")
    state = tmp_path_factory.mktemp("jupyter")
    RESULTS.mkdir(exist_ok=True)
    log = RESULTS / "jupyterlab.log"
    command = lab_command(Path(sys.executable), folder, "", ["--no-browser", "--ServerApp.port=0"])
    environment = jupyter_environment(Path(sys.prefix), state)
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output, env=environment) as process:
        try:
            yield _wait_for_server(process, state / "data" / "runtime", log, folder)
        finally:
            process.terminate()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium, or a clear word when there is none: left out for a person, a failure in CI."""
    chromium = find_chromium()
    if chromium is None:
        reason = f"No Chromium was found; to run the browser tests, {HOW_TO_GET_CHROMIUM}."
        if in_ci():
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=_CHROMIUM_ARGUMENTS)
        yield started
        started.close()


@pytest.fixture
def watch() -> Watch:
    """What the page of this test asked for and complained about."""
    return Watch()


def _observe(page: Page, watch: Watch) -> None:
    def on_request(request: Request) -> None:
        watch.requests.append(request.url)

    def on_socket(socket: WebSocket) -> None:
        watch.requests.append(socket.url)
        socket.on("framesent", on_frame)

    def on_frame(sent: str | bytes) -> None:
        watch.comm_messages += b"comm_msg" in (sent.encode() if isinstance(sent, str) else sent)

    def on_console(message: ConsoleMessage) -> None:
        if message.type == "error":
            watch.console_errors.append(message.text)

    def on_error(error: Error) -> None:
        watch.page_errors.append(str(error))

    page.on("request", on_request)
    page.on("websocket", on_socket)
    page.on("console", on_console)
    page.on("pageerror", on_error)


def _keep_evidence(page: Page, watch: Watch, name: str) -> None:
    """Leave a picture and the page's messages of a failed test."""
    stem = re.sub(r"[^\w.-]+", "-", name).strip("-")
    RESULTS.mkdir(exist_ok=True)
    lines = [*watch.page_errors, *watch.console_errors, *(f"left the machine: {url}" for url in watch.outside)]
    (RESULTS / f"{stem}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    # The page may be what broke; the test's own failure is the one to report.
    with suppress(Error):
        page.screenshot(path=RESULTS / f"{stem}.png", full_page=True)


def stop_kernels(page: Page, server: LabServer) -> None:
    """A test's kernel would go on beside the next test's and take its share of the machine."""
    headers = {"Authorization": f"token {server.token}"}
    sessions = page.request.get(f"{server.url}api/sessions", headers=headers).json()
    for session in sessions:
        page.request.delete(f"{server.url}api/sessions/{session['id']}", headers=headers)


@pytest.fixture
def page(request: pytest.FixtureRequest, browser: Browser, lab_server: LabServer, watch: Watch) -> Iterator[Page]:
    """A page of a browser profile of its own. A request that would leave the machine fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    try:
        page = context.new_page()
        _observe(page, watch)
        yield page
        if request.node.stash.get(_FAILED, False) or watch.outside:
            _keep_evidence(page, watch, request.node.name)
        stop_kernels(page, lab_server)
    finally:
        context.close()
    assert not watch.outside, f"requests left the machine: {watch.outside}"


@pytest.fixture
def open_notebook(page: Page, lab_server: LabServer) -> OpenNotebook:
    """Open a lesson by its name, in a copy without outputs that no other test sees, and wait until it can be used."""

    def opened(name: str) -> Page:
        # A workspace of its own: JupyterLab would bring back the tabs of the test before.
        unique = uuid.uuid4().hex
        copy_lessons(LESSONS, lab_server.folder / unique)
        page.goto(f"{lab_server.url}lab/workspaces/{unique}/tree/{unique}/{name}.ipynb?token={lab_server.token}")
        # The notebook's own sign shows idle before there is a kernel; running a cell then opens a dialog.
        sign = page.locator("#jp-main-statusbar").get_by_text(re.compile(r"\| Idle"))
        try:
            sign.wait_for(timeout=_CONNECTED_TIMEOUT_MS)
        except PlaywrightTimeoutError:
            # JupyterLab may never connect to a kernel that it has just started, and then shows "Unknown" for good;
            # before a lesson's first cell has run there is nothing of ours in it, and a person would reload too.
            page.reload()
            sign.wait_for(timeout=_READY_TIMEOUT_MS)
        page.wait_for_selector(_IDLE, timeout=_READY_TIMEOUT_MS)
        return page

    return opened


def run_all_cells(page: Page, timeout_ms: int = 60_000) -> None:
    """Run every cell through the menu and wait until the last has its number."""
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.locator('[data-command="runmenu:run-all"]').click()
    # An empty cell never gets a number, and a running one shows a star.
    page.wait_for_function(
        """() => {
            const cells = [...document.querySelectorAll('.jp-NotebookPanel:not(.lm-mod-hidden) .jp-CodeCell')];
            const prompts = cells.map(cell => cell.querySelector('.jp-InputPrompt')?.textContent ?? '');
            return prompts.some(text => /\\[\\d+\\]/.test(text)) && !prompts.some(text => text.includes('*'));
        }""",
        timeout=timeout_ms,
    )
    page.wait_for_selector(_IDLE, timeout=timeout_ms)
