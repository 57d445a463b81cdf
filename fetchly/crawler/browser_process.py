"""A place to find Chromium in; a running browser to open pages with out, replaced when it is used up, hung or gone.

Everything here runs in one event loop. Playwright's driver is a child of ours and Chromium a child of the driver, tied
to it by a pipe: whichever ends, by whatever signal, takes the next one down with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import psutil

from fetchly.crawler.browser_memory import end_hoarders
from fetchly.crawler.chromium import (
    ARGUMENTS,
    UNWANTED_ARGUMENTS,
    BrowserMissing,
    find_chromium,
    folders_of,
    sandbox_here,
    socket_folder,
)
from fetchly.crawler.proxy import EgressProxy
from fetchly.crawler.storage_state import StorageState
from fetchly.egress import EgressGate
from fetchly.errors import ConfigurationError

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Page, Playwright

T = TypeVar("T")

LAUNCH_S = 30.0
CLOSE_S = 5.0
TAB_S = 10.0  # far more than it takes: where all cores are busy, a browser is slow, and not hung
ORIGIN_S = 1.0  # each site of a storage state is opened to set its localStorage
PAGES_PER_BROWSER = 100
"""A browser's memory grows from page to page."""


async def bounded(work: Awaitable[T], limit_s: float) -> T:
    """The one way to await the browser: nothing that it promises is sure to come. Raises TimeoutError."""
    async with asyncio.timeout(limit_s):
        return await work


def is_browser_error(error: Exception) -> bool:
    """Whether an exception is the browser's or its driver's, and not a mistake of ours."""
    from playwright.async_api import Error

    return isinstance(error, Error) or type(error) is Exception  # so Playwright says that its driver is gone


def says_gone(error: Exception) -> bool:
    """Whether an exception says that the browser went away, which may be told before it counts as disconnected."""
    return is_browser_error(error) and re.search("has been closed|Connection closed", str(error)) is not None


@dataclass(slots=True)
class Running:
    """One launched browser. `pid` leads its process group, `driver` is its parent, `profile` its folder (None where
    there is no /proc to see it). `folders` are those that it leaves where it is killed; `watch` bounds its memory."""

    browser: Browser
    pid: int
    driver: int | None
    profile: Path | None
    folders: tuple[Path, ...]
    active: int = 0
    served: int = 0
    hung: bool = False
    hoarders: int = 0
    watch: asyncio.Future[None] | None = None

    def note_hoarder(self) -> None:
        """A process of it was ended for its memory."""
        self.hoarders += 1

    def claim_hoarder(self) -> bool:
        """Whether a page that went down was such a one."""
        claimed = self.hoarders > 0
        self.hoarders -= claimed
        return claimed


@dataclass(frozen=True, slots=True)
class OpenTab:
    """A tab to show one page in, and what it belongs to."""

    running: Running
    context: BrowserContext
    page: Page


class BrowserProcess:
    """Launches Chromium when it is first needed. Errors: BrowserMissing; playwright's own from a browser in use."""

    def __init__(
        self,
        gate: EgressGate,
        browser_path: str | None,
        pages_per_browser: int = PAGES_PER_BROWSER,
        storage_state: StorageState | None = None,
    ) -> None:
        self._gate = gate
        self._browser_path = browser_path
        self._pages_per_browser = pages_per_browser
        self._storage_state = storage_state
        self._launching = asyncio.Lock()
        self._playwright: Playwright | None = None
        self._proxy: EgressProxy | None = None
        self._driver_pid: int | None = None
        self._current: Running | None = None
        self._all: list[Running] = []
        self.has_worked = False
        """Whether a page was ever opened here: a browser that fails after that is one that is short of something."""

    @property
    def proxy(self) -> EgressProxy:
        """The way out of every browser launched here."""
        assert self._proxy is not None, "launched"
        return self._proxy

    @asynccontextmanager
    async def tab(self, user_agent: str) -> AsyncIterator[OpenTab]:
        """A tab in a context of its own: no cookie, cache entry or worker of another page, and none left behind. It
        begins with the storage state, if there is one.

        A browser that gives none is replaced, once. Where a tab does not close in time its browser is ended.
        """
        tab = await self._open(user_agent) or await self._open(user_agent)
        if tab is None:
            raise BrowserMissing("the browser starts, but opens no page", hint="fetchly doctor")
        self.has_worked = True
        try:
            yield tab
        finally:
            try:
                await bounded(tab.context.close(), CLOSE_S)
            except asyncio.CancelledError:  # a second time: everything is to end
                tab.running.hung = True
                raise
            except Exception:  # it does not close, or has gone down
                tab.running.hung = True
            finally:
                await self._leave(tab.running)

    async def _open(self, user_agent: str) -> OpenTab | None:
        async with self._launching:
            running = self._current
            if running is None or not running.browser.is_connected():
                running = self._current = await self._launch()
            running.active += 1
            running.served += 1
            if running.served >= self._pages_per_browser:
                self._current = None
        tab = None
        state = self._storage_state
        try:
            async with asyncio.timeout(TAB_S + ORIGIN_S * (state.origins if state is not None else 0)):
                context = await running.browser.new_context(
                    user_agent=user_agent,
                    accept_downloads=False,
                    service_workers="block",
                    reduced_motion="reduce",
                    viewport={"width": 1280, "height": 2000},  # much is loaded only when it comes into view
                    storage_state=state.content if state is not None else None,
                )
                tab = OpenTab(running, context, await context.new_page())
        except Exception as error:
            if state is not None and _is_about_storage(error):
                raise ConfigurationError(  # its words repeat cookies
                    "the browser does not take the storage state", where="storage_state", hint="save it anew"
                ) from None
            if not is_browser_error(error) and not isinstance(error, TimeoutError):
                raise
            running.hung = True
        finally:
            if tab is None:
                await self._leave(running)
        return tab

    async def _leave(self, running: Running) -> None:
        running.active -= 1
        if running.hung and self._current is running:
            self._current = None
        # Its other pages, if any, may still come to an end of their own.
        if running.active == 0 and running is not self._current:
            await self._end(running)

    async def rest(self) -> None:
        """End what nobody uses: where no page is open, browser, driver and proxy. The next page starts them again."""
        async with self._launching:
            if not any(running.active for running in self._all):
                await self.close()

    def pids(self) -> tuple[int, ...]:
        """The driver and all that it has started, from any thread; () where none runs."""
        try:
            driver = psutil.Process(self._driver_pid) if self._driver_pid is not None else None
            if driver is None or driver.ppid() != os.getpid():  # it has ended, and its id may be another's by now
                return ()
            return tuple(process.pid for process in (driver, *driver.children(recursive=True)) if _runs(process))
        except psutil.Error:
            return ()

    async def close(self) -> None:
        """End every browser, the driver and the proxy. Takes seconds at most, whatever state they are in."""
        for running in list(self._all):
            await self._end(running)
        await self._stop_driver()
        proxy, self._proxy = self._proxy, None
        if proxy is not None:
            await proxy.close()

    def kill(self) -> None:
        """End every browser at once, from any thread."""
        for running in list(self._all):
            _kill(running)

    async def _launch(self) -> Running:
        path = find_chromium(self._browser_path)
        if self._proxy is None:
            self._proxy = EgressProxy(self._gate)
            await self._proxy.start()
        try:
            return await bounded(self._launch_with_driver(path), LAUNCH_S)
        except TimeoutError:
            await self._stop_driver()
            raise BrowserMissing(f"it did not start within {LAUNCH_S:g} s", where=str(path)) from None
        except BrowserMissing:
            raise
        except Exception as error:
            await self._stop_driver()
            raise _launch_error(error, path) from error

    async def _launch_with_driver(self, path: Path) -> Running:
        if self._playwright is None:
            self._playwright = await _driver()
        sandbox = sandbox_here(path)
        try:
            browser = await self._start(path, sandbox.usable)
        except Exception:
            # The driver of an earlier browser may have died with it.
            await self._stop_driver()
            self._playwright = await _driver()
            browser = await self._start(path, sandbox.usable)
        session = await browser.new_browser_cdp_session()
        processes = (await session.send("SystemInfo.getProcessInfo"))["processInfo"]
        pid = next(int(process["id"]) for process in processes if process["type"] == "browser")
        profile = _profile_of(pid)
        running = Running(browser, pid, _parent_of(pid), profile, folders_of(profile))
        running.watch = asyncio.ensure_future(end_hoarders(pid, running.note_hoarder))
        self._driver_pid = running.driver
        self._all.append(running)
        return running

    async def _start(self, path: Path, sandbox: bool) -> Browser:
        assert self._playwright is not None
        return await self._playwright.chromium.launch(
            executable_path=path,
            args=list(ARGUMENTS),
            ignore_default_args=list(UNWANTED_ARGUMENTS),
            chromium_sandbox=sandbox,
            headless=True,
            env={**os.environ, "TMPDIR": str(socket_folder())},
            timeout=LAUNCH_S * 1000,
            proxy={
                "server": self.proxy.url,
                "username": self.proxy.username,
                "password": self.proxy.password,
                "bypass": "<-loopback>",  # Chromium would go to loopback past its proxy
            },
        )

    async def _end(self, running: Running) -> None:
        if running not in self._all:
            return
        self._all.remove(running)
        if running.watch is not None:
            running.watch.cancel()
        if self._current is running:
            self._current = None
        if not running.hung:
            running.hung = not await _closes(running.browser)
        if running.hung:
            _kill(running)
            await _closes(running.browser)  # the driver takes note
        _remove(running.folders)

    async def _stop_driver(self) -> None:
        driver, self._playwright = self._playwright, None
        if driver is not None:
            try:
                await bounded(driver.stop(), CLOSE_S)
            except TimeoutError:  # it does not answer: it is a child of ours, so that its id is still its own
                if self._driver_pid is not None:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(self._driver_pid, signal.SIGKILL)
            except Exception as error:
                if not is_browser_error(error):
                    raise
            self._driver_pid = None


def _is_about_storage(error: Exception) -> bool:
    return is_browser_error(error) and re.search(r"storage.?state|cookie", str(error), re.IGNORECASE) is not None


async def _closes(browser: Browser) -> bool:
    try:
        await bounded(browser.close(), CLOSE_S)
    except TimeoutError:
        return False
    except Exception as error:
        if not is_browser_error(error):
            raise
        return False
    return True


async def _driver() -> Playwright:
    try:
        from playwright.async_api import async_playwright
    except ImportError as error:
        raise BrowserMissing(
            "playwright is not installed, which drives the browser", hint="pip install 'fetchly[browser]'"
        ) from error
    return await async_playwright().start()


def _launch_error(error: Exception, path: Path) -> ConfigurationError:
    said = [line.strip() for line in str(error).splitlines() if line.strip()]
    sandbox = next((line for line in said if "sandbox" in line.lower() and "no usable" in line.lower()), None)
    if sandbox is not None:
        return BrowserMissing("its sandbox cannot be built here", where=str(path), hint="run `fetchly doctor`")
    return BrowserMissing(f"it does not start: {said[0] if said else error!r}", where=str(path), hint="fetchly doctor")


def _runs(process: psutil.Process) -> bool:
    """Not so for one that has ended and was not waited for yet: nothing is left of it to be weighed or ended."""
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _parent_of(pid: int) -> int | None:
    try:
        return psutil.Process(pid).ppid()
    except psutil.Error:
        return None


def _profile_of(pid: int) -> Path | None:
    """The temporary profile of a browser, by its command line; None where that cannot be read (no /proc)."""
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return None
    for argument in arguments:
        name, _, value = argument.partition(b"=")
        folder = Path(os.fsdecode(value))
        if name == b"--user-data-dir" and folder.is_relative_to(tempfile.gettempdir()):
            return folder
    return None


def _kill(running: Running) -> None:
    """End the whole group of processes, if the group's leader is still the browser."""
    if running.profile is not None and _profile_of(running.pid) != running.profile:
        return  # it has ended, and its id may be another's by now
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.getpgid(running.pid) == running.pid:
            os.killpg(running.pid, signal.SIGKILL)
        else:
            os.kill(running.pid, signal.SIGKILL)


def _remove(folders: tuple[Path, ...]) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
