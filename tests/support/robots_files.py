"""robots.txt files, and a web that answers with one after another."""

from __future__ import annotations

from dataclasses import dataclass, field

from fetchly.crawler.answers import status_error
from fetchly.crawler.robots import Robots
from fetchly.errors import FetchError
from fetchly.goods import Page

SITE = "http://example.org"


@dataclass
class Web:
    """Answers for robots.txt, one after another (the last for ever), and a clock."""

    answers: list[Page | Exception]
    seconds: float = 0.0
    asked: list[str] = field(default_factory=list)

    def fetch(self, url: str) -> Page:
        self.asked.append(url)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def robots(self) -> Robots:
        return Robots(self.fetch, "fetchly", lambda: self.seconds)


def page(body: bytes | str, *, charset: str | None = None, redirects: int = 0, media_type: str = "text/plain") -> Page:
    url = f"{SITE}/robots.txt"
    raw = body.encode() if isinstance(body, str) else body
    return Page(url, url, 200, (), raw, media_type, charset, redirects=(url,) * redirects)


def failed(status: int) -> FetchError:
    return status_error(f"{SITE}/robots.txt", status, "", None)
