"""An element in; whether it is navigation, the page's footer or a consent banner out: read, but told last."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fetchly.document.clean import DROPPED, collapse, text_length
from fetchly.document.dom import Element

MAX_SHARE = 0.5
"""What holds more of the page's text is the page (`<div class="cookie-bar-visible">` around everything)."""

_BREADCRUMB = re.compile(r"(?:^|[\s_-])(?:breadcrumbs?|bread-crumbs?)(?:[\s_-]|\Z)", re.IGNORECASE)
_FRAMES = frozenset(("div", "section", "aside", "dialog", "form", "fc-consent-root", "cmp-banner", "span"))
# Consent tools by the ids and classes that they write: a vendor's own name, where a word of an id or a class begins.
_TOOLS = re.compile(
    r"(?:^|[\s_-])(?:onetrust|optanon|cybot|cookiebot|didomi|usercentrics|sp_message|fc-consent|fc-dialog|trustarc|"
    r"qc-cmp|cookie-law-info|eu-cookie-compliance|cookieyes|cookiescript|cky-|cmplz|complianz|borlabs|iubenda|tarteaucitron|axeptio|"
    r"sirdata|cmpbox|cmpwrapper|coioverlay|moove[_-]gdpr|lgcookieslaw|consentmanager|"
    r"(?:truste|quantcast|termly|osano|klaro|evidon|cc-window|cc-banner|cc-revoke)(?=[\s_-]|\Z))",
    re.IGNORECASE,
)
# Names that only a banner has, if it speaks of cookies as well: `cookieNotice`, `cookie-banner`, `cmp-modal`.
_BANNERS = re.compile(
    r"(?:cookies?[-_ ]?(?:banner|consent|notice|notification|popup|pop-up|modal|overlay|dialog|disclaimer|warning|wall|"
    r"preferences|policy-?(?:bar|banner|notice|popup|modal)|accept|agree|disclosure)|(?:accept|allow|consent)[-_]?cookies?|"
    r"(?:consent|gdpr|privacy)[-_ ](?:consent|bar|banner|popup|modal|overlay|dialog|manager|tool|wall)|"
    r"cmp-?(?:banner|modal|ui|wrapper)|consent(?:banner|popup|modal|overlay))(?-i:(?![a-z]))",
    re.IGNORECASE,
)
# Names that banners share with much else: `cookie-container`, `consent`.
_ASKED = re.compile(r"cookie|consent|gdpr|privacy|cmp-", re.IGNORECASE)
# What a banner says, in the languages of most pages.
_COOKIE = re.compile(
    r"cookie|kaka|kakor|evästei|küpsis|sīkdat|slapuk|çerez|soubory cookie|süti|kolačić|piškot|クッキー|쿠키|куки|"
    r"privacy|datenschutz|privatsphäre|données personnelles|隐私",
    re.IGNORECASE,
)
_CONSENT = re.compile(
    r"accept|agree|consent|allow|reject|got it|akzept|zustimm|einverstanden|ablehnen|einwillig|accepter|refuser|consent"
    r"|acept|rechaz|accett|rifiut|aceit|akkoord|toestaan|weiger|zgod|akcept|zaakcept|souhlas|přij|godkän|tillåt|godta"
    r"|hyväksy|elfogad|sutinku|piekr|nõust|kabul|onayl|принять|принима|соглас|同意|受け入れ|許可|동의|موافق|accepta"
    r"|(?m:^(?:ok|okay|oké)\W*$)",
    re.IGNORECASE,
)
_BUTTON = re.compile(r"(?:^|[\s_-])(?:btn|button|accept|close)(?:[\s_-]|\Z)", re.IGNORECASE)
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
        """A consent tool's element by its vendor's name; an element by the name of a banner, that speaks of cookies; a
        dialog that speaks of cookies and of consent; an element by any name of the kind, that speaks of cookies and has
        a button to consent. Never what holds the page's main part or its first heading. Nor most of the page's text:
        the dialog of a tool, with its list of partners, may be longer than the page, but then it asks for consent."""
        own = f"{element.get('id')} {element.get('class')}"
        names = f"{own} {element.get('aria-label')}"
        is_tool = _TOOLS.search(own) is not None
        is_dialog = element.get("role").lower() in _DIALOGS or "aria-modal" in element.attributes
        if not (is_tool or is_dialog or _ASKED.search(names)) or self._looks >= MAX_LOOKS:
            return False
        self._looks += 1
        if _holds_page(element):
            return False
        said = _said(element)
        on_cookies = _COOKIE.search(said.text) is not None
        asks = on_cookies and _CONSENT.search(said.text if is_dialog else said.controls) is not None
        if not (is_tool or asks or (on_cookies and _BANNERS.search(names))):
            return False
        return (asks and _TOOLS.search(element.get("id")) is not None) or self._share(element) <= MAX_SHARE

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


@dataclass(frozen=True, slots=True)
class _Said:
    """What the beginning of a banner says, and what its buttons and links say."""

    text: str
    controls: str


def _said(element: Element) -> _Said:
    texts: list[str] = []
    controls: list[str] = []
    length = nodes = 0
    stack: list[_Node] = [_Node(element, pressed=False)]
    while stack and length < MAX_SCANNED and nodes < MAX_SCANNED:
        item = stack.pop()
        node, nodes = item.node, nodes + 1
        if isinstance(node, str):
            text = collapse(node)
            texts.append(text)
            length += len(text)
            if item.pressed:
                controls.append(text)
        elif node.tag == "input":
            controls += [node.get("value"), node.get("aria-label")]
        elif node.tag not in DROPPED:
            pressed = item.pressed or (node is not element and _is_control(node))
            if pressed:
                controls.append(node.get("aria-label"))
            stack.extend(_Node(child, pressed) for child in reversed(node.children))
    return _Said(" ".join(texts), "\n".join(controls))


@dataclass(frozen=True, slots=True)
class _Node:
    """A node of a banner, and whether it stands in a control."""

    node: Element | str
    pressed: bool


def _is_control(element: Element) -> bool:
    return (
        element.tag in ("button", "a")
        or element.get("role") == "button"
        or "onclick" in element.attributes
        or _BUTTON.search(element.get("class")) is not None
    )
