"""A configured path or nothing in; the Chromium of this machine and how to start it out."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fetchly.errors import ConfigurationError

_NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome", "microsoft-edge")
_APPLICATIONS = (  # macOS keeps no browser on PATH
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)
# The folder of a browser that `playwright install` made, and the program inside; the smaller build first.
_INSTALLED = (
    ("chromium_headless_shell-*", ("*/headless_shell", "*/chrome-headless-shell")),
    ("chromium-*", ("*/chrome", "*/Chromium.app/Contents/MacOS/Chromium", "*/*.app/Contents/MacOS/Google Chrome*")),
)

# Chromium heeds the last --disable-features alone, and so with --enable-features: ours repeat what Playwright says (a
# test compares the two), and turn off services that the browser calls by itself and pages that nobody has gone to.
DISABLED_FEATURES = (
    "AvoidUnnecessaryBeforeUnloadCheckSync",
    "DestroyProfileOnBrowserClose",
    "HttpsUpgrades",
    "HttpsFirstBalancedModeAutoEnable",
    "PaintHolding",
    "ThirdPartyStoragePartitioning",
    "AvoidCorsURLLoaderRestartOnRedirect",
    "TcpPortRandomizationWin",
    "msForceBrowserSignIn",
    "msEdgeUpdateLaunchServicesPreferredVersion",
    "AimEnabled",
    "AutofillServerCommunication",  # asks what a form's fields are for
    "DialMediaRouteProvider",
    "LensOverlay",
    "MediaRouter",
    "NetworkTimeServiceQuerying",
    "OptimizationHints",
    "PreconnectToSearch",
    "Prerender2",
    "Translate",
    "TranslationAPI",
)
ENABLED_FEATURES = (
    "CDPScreenshotNewSurface",
    "SkipListAccountsWithoutGaiaCookies",
    # What a page says in speculation rules is fetched past every request that we see, and there is no switch for it
    # that holds while a browser is driven: none at a time is how many we let it fetch.
    "PrefetchSchedulerTesting"
    ":kPrefetchSchedulerTestingActiveSetSizeLimitForBase/0/kPrefetchSchedulerTestingActiveSetSizeLimitForBurst/0",
)
# Hosts that serve browsers and hold no page: what a feature of tomorrow asks of them is refused by the proxy. Hosts
# that pages use as well (fonts, sign-in, translation) are not among them.
SERVICE_HOSTS = frozenset(
    (
        "aida.googleapis.com",
        "android.clients.google.com",
        "chrome-devtools-frontend.appspot.com",
        "chromereporting-pa.googleapis.com",
        "chromewebstore.googleapis.com",
        "clients1.google.com",
        "clients2.google.com",
        "clients3.google.com",
        "clients4.google.com",
        "clientservices.googleapis.com",
        "content-autofill.googleapis.com",
        "edgedl.me.gvt1.com",
        "footprints-pa.googleapis.com",
        "lensfrontend-pa.googleapis.com",
        "mtalk.google.com",
        "oauthaccountmanager.googleapis.com",
        "optimizationguide-pa.googleapis.com",
        "passwordsleakcheck-pa.googleapis.com",
        "redirector.gvt1.com",
        "safebrowsing.google.com",
        "safebrowsing.googleapis.com",
        "safebrowsingohttpgateway.googleapis.com",
        "sb-ssl.google.com",
        "sctauditing-pa.googleapis.com",
        "securitydomain-pa.googleapis.com",
        "update.googleapis.com",
        "webpermissionpredictions.googleapis.com",
        # Domain reliability.
        *("beacons.gcp.gvt2.com", "beacons.gvt2.com", *(f"beacons{n}.gvt2.com" for n in range(2, 6))),
        "beacons5.gvt3.com",
        # Edge.
        *("config.edge.skype.com", "edge.microsoft.com", "nav-edge.smartscreen.microsoft.com"),
    )
)

# Everything that Chromium is told beyond what Playwright tells it. Nothing of a user or a page is ever added.
ARGUMENTS = (
    f"--disable-features={','.join(DISABLED_FEATURES)}",
    f"--enable-features={','.join(ENABLED_FEATURES)}",
    "--disable-gpu",
    "--disable-quic",
    "--disable-domain-reliability",
    "--disable-client-side-phishing-detection",
    "--disable-notifications",
    "--disable-remote-fonts",
    "--disable-speech-api",
    "--deny-permission-prompts",
    "--no-crash-upload",
    "--no-pings",
    # The proxy resolves names, through the gate; a look-up by the browser itself could only be a leak.
    "--dns-prefetch-disable",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    # WebRTC speaks UDP past any proxy.
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    # A page that hoards memory loses its tab, not the machine.
    "--js-flags=--max-old-space-size=1024",
)
# What Playwright tells every browser and a reader of strange pages does not want.
UNWANTED_ARGUMENTS = ("--disable-popup-blocking", "--disable-ipc-flooding-protection", "--enable-unsafe-swiftshader")


_LONGEST_SOCKET = 103  # bytes of a path: 107 on Linux, 103 on macOS (sun_path of unix(7), without its final zero)
_LOCK = "/org.chromium.Chromium.XXXXXX/SingletonSocket"


class BrowserMissing(ConfigurationError):
    """There is no browser to render pages with."""

    code = "BROWSER_MISSING"


@dataclass(frozen=True, slots=True)
class Sandbox:
    """Whether Chromium's own sandbox can be used here, and why not."""

    usable: bool
    reason: str = ""


def find_chromium(configured: str | None = None, environment: Mapping[str, str] | None = None) -> Path:
    """The browser to use: the configured one, Playwright's own, or the system's, in this order.

    Raises BrowserMissing, with what to do about it; a configured path that leads nowhere is never replaced by another.
    """
    environment = os.environ if environment is None else environment
    if configured is not None:
        path = Path(configured).expanduser()
        if not _is_program(path):
            raise BrowserMissing("there is no such program", where=f"browser_path {configured}", hint="name Chromium")
        return path
    for path in _installed_by_playwright(environment):
        return path
    for name in _NAMES:
        found = shutil.which(name, path=environment.get("PATH"))
        if found is not None:
            return Path(found)
    for application in map(Path, _APPLICATIONS):
        if _is_program(application):
            return application
    debian = " (on Debian: apt-get install chromium)" if shutil.which("apt-get") else ""
    raise BrowserMissing(
        "no Chromium or Chrome was found to render the page with", hint=f"playwright install chromium{debian}"
    )


def _installed_by_playwright(environment: Mapping[str, str]) -> list[Path]:
    """Browsers of `playwright install`, the newest revision first."""
    configured = environment.get("PLAYWRIGHT_BROWSERS_PATH")
    if configured == "0":
        import importlib.util

        spec = importlib.util.find_spec("playwright")
        if spec is None or spec.origin is None:
            return []
        root = Path(spec.origin).parent / "driver" / "package" / ".local-browsers"
    elif configured:
        root = Path(configured)
    elif sys.platform == "darwin":
        root = Path.home() / "Library" / "Caches" / "ms-playwright"
    else:
        root = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ms-playwright"
    found: list[Path] = []
    for folder, programs in _INSTALLED:
        for revision in sorted(root.glob(folder), key=_revision, reverse=True):
            found += [path for program in programs for path in sorted(revision.glob(program)) if _is_program(path)]
    return found


def _revision(folder: Path) -> int:
    number = re.search(r"-(\d+)$", folder.name)
    return int(number[1]) if number else 0


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def version_of(path: Path) -> str:
    """What the browser says of itself. Raises BrowserMissing where it does not start."""
    try:
        answer = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=15, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BrowserMissing(f"it does not start: {error}", where=str(path)) from None
    words = answer.stdout.strip()
    if answer.returncode != 0 or not words:
        said = (answer.stderr.strip().splitlines() or ["without a word"])[-1]
        raise BrowserMissing(f"it does not start: {said}", where=str(path), hint="install another, or set browser_path")
    return words.splitlines()[-1]


def sandbox_here(browser: Path) -> Sandbox:
    """Whether the kernel lets Chromium build its sandbox, found by trying (Linux); Chromium refuses to as root."""
    if sys.platform != "linux":
        return Sandbox(True)
    if os.geteuid() == 0:
        return Sandbox(False, "Chromium has none when it runs as root")
    for folder in (browser.resolve().parent, Path("/usr/lib/chromium"), Path("/opt/google/chrome")):
        for name in ("chrome-sandbox", "chrome_sandbox"):
            helper = folder / name
            if helper.is_file() and helper.stat().st_mode & stat.S_ISUID and helper.stat().st_uid == 0:
                return Sandbox(True)
    probe = shutil.which("unshare")
    if probe is None:
        return Sandbox(True)  # unknown: Chromium says so itself if it cannot
    done = subprocess.run([probe, "--user", "--map-root-user", "true"], capture_output=True, timeout=10, check=False)
    if done.returncode == 0:
        return Sandbox(True)
    return Sandbox(False, "the kernel, or the container, refuses user namespaces")


def socket_folder() -> Path:
    """Where Chromium makes a folder for the socket of its one-instance lock, by TMPDIR. It does not start where the
    socket's path is longer than the system lets it be, as below a deep folder for temporary files."""
    own = tempfile.gettempdir()
    is_long = len(os.fsencode(own)) + len(_LOCK) > _LONGEST_SOCKET
    return Path("/tmp" if is_long and os.access("/tmp", os.W_OK) else own)


def folders_of(profile: Path | None) -> tuple[Path, ...]:
    """The profile, and the folder that holds the socket of Chromium's one-instance lock."""
    if profile is None:
        return ()
    try:
        lock = Path(os.readlink(profile / "SingletonSocket")).parent
    except OSError:
        return (profile,)
    return (profile, lock) if lock.parent in (profile.parent, socket_folder()) else (profile,)
