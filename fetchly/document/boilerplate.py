"""An element in; whether it is navigation, the page's footer or a consent banner out: read, but told last."""

from __future__ import annotations

import re

from fetchly.document.clean import DROPPED, collapse, text_length
from fetchly.document.dom import Element

MAX_SHARE = 0.5
"""What holds more of the page's text is the page (`<div class="cookie-bar-visible">` around everything)."""

_BREADCRUMB = re.compile(r"(?:^|[\s_-])(?:breadcrumbs?|bread-crumbs?)(?:[\s_-]|\Z)", re.IGNORECASE)
_FRAMES = frozenset(("div", "section", "aside", "dialog", "form", "fc-consent-root", "cmp-banner", "span"))
# Consent tools by the ids and classes that they write.
_TOOLS = re.compile(
    r"onetrust|optanon|cybot|cookiebot|didomi|usercentrics|sp_message|fc-consent|fc-dialog|truste|trustarc|qc-cmp|"
    r"quantcast|cookie-?law|cookieyes|cky-|cmplz|complianz|borlabs|iubenda|termly|osano|klaro|tarteaucitron|"
    r"axeptio|cc-window|cc-banner|evidon|sirdata|cmpbox|cmp-?(?:banner|modal|container|ui|wrapper)|gdpr|coioverlay|"
    r"moove|cookie-?information|ccm-(?:root|modal)|lgcookies|eu-cookie|consentmanager|privacy-?(?:banner|manager|popup)",
    re.IGNORECASE,
)
_WORDS = re.compile(
    r"cookies?[-_]?(?:bar|banner|box|consent|notice|notification|message|msg|popup|pop-up|modal|overlay|layer|dialog|"
    r"disclaimer|alert|warning|hint|wall|info|container|wrapper|settings|preferences|manager|policy-?(?:bar|popup|"
    r"banner|modal|notice)|accept|agree|disclosure|statement)|(?:accept|allow|consent|js|privacy)[-_]?cookies?|"
    r"(?:^|[\s_-])consent(?:[\s_-]|\Z)|consent[-_]?(?:bar|banner|box|popup|modal|overlay|layer|dialog|manager|tool|wall)",
    re.IGNORECASE,
)
# What a banner says, in the languages of most pages.
_COOKIE = re.compile(
    r"cookie|kaka|kakor|evästei|küpsis|sīkdat|slapuk|çerez|soubory cookie|süti|kolačić|piškot|クッキー|쿠키|куки|"
    r"privacy|datenschutz|privatsphäre|données personnelles|隐私",
    re.IGNORECASE,
)
_CONSENT = re.compile(
    r"accept|agree|consent|allow|reject|got it|akzept|zustimm|einverstanden|ablehnen|einwillig|accepter|refuser|consent"
    r"|acept|rechaz|accett|rifiut|aceit|akkoord|toestaan|weiger|zgod|akcept|zaakcept|souhlas|přij|godkän|tillåt|godta"
    r"|hyväksy|elfogad|sutinku|piekr|nõust|kabul|onayl|принять|принима|соглас|同意|受け入れ|許可|동의|موافق|accepta",
    re.IGNORECASE,
)
_DIALOGS = frozenset(("dialog", "alertdialog"))
MAX_LOOKS = 50  # elements of a page that are looked at: a page has a few banners, a hostile one thousands
MAX_SCANNED = 4000  # characters of a banner that are looked at


class Surroundings:
    """Tells what surrounds the content of one page."""

    def __init__(self, body: Element) -> None:
        self._body = body
        self._length: int | None = None
        self._looks = 0

    def begin_at(self, element: Element) -> bool:
        """Whether an element begins navigation, the page's footer or a consent banner."""
        tag = element.tag
        if tag == "nav" or element.get("role") in ("navigation", "contentinfo"):
            return not is_breadcrumb(element)
        if tag == "footer":
            return not _inside_content(element)
        return bool(element.attributes) and tag in _FRAMES and self._is_consent(element)

    def _is_consent(self, element: Element) -> bool:
        """A consent tool's element by its name; else an element called after cookies, or a dialog, that speaks of
        cookies and of consent. Never what holds the page's main part, its first heading, or most of its text."""
        names = f"{element.get('id')} {element.get('class')} {element.get('aria-label')}"
        known = _TOOLS.search(names) is not None or _WORDS.search(names) is not None
        asked = (
            known
            or "cookie" in names.lower()
            or element.get("role").lower() in _DIALOGS
            or "aria-modal" in element.attributes
        )
        if not asked or self._looks >= MAX_LOOKS:
            return False
        self._looks += 1
        if _holds_page(element):
            return False
        if not known:
            said = _beginning(element)
            if not (_COOKIE.search(said) and _CONSENT.search(said)):
                return False
        # The dialog of a tool, with its list of partners, may well be longer than the page.
        return _TOOLS.search(element.get("id")) is not None or self._share(element) <= MAX_SHARE

    def _share(self, element: Element) -> float:
        if self._length is None:
            self._length = max(1, text_length(self._body))
        return text_length(element) / self._length


def _inside_content(element: Element) -> bool:
    parent = element.parent
    while parent is not None:
        if parent.tag in ("article", "main", "section", "blockquote"):
            return True
        parent = parent.parent
    return False


def is_breadcrumb(element: Element) -> bool:
    """Whether an element is the way from the home page to this one, which is a fact about the page."""
    if not element.attributes:
        return False
    names = f"{element.get('id')} {element.get('class')} {element.get('aria-label')}"
    return _BREADCRUMB.search(names) is not None or element.get("itemtype").endswith("/BreadcrumbList")


def _holds_page(element: Element) -> bool:
    stack = [element]
    while stack:
        node = stack.pop()
        if node.tag in ("main", "article", "h1"):
            return True
        stack.extend(child for child in node.children if isinstance(child, Element))
    return False


def _beginning(element: Element) -> str:
    parts: list[str] = []
    length = 0
    stack: list[Element | str] = [element]
    while stack and length < MAX_SCANNED:
        node = stack.pop()
        if isinstance(node, str):
            parts.append(collapse(node))
            length += len(parts[-1])
        elif node.tag not in DROPPED:
            stack.extend(reversed(node.children))
    return " ".join(parts)
