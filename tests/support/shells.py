"""Pages that hold nothing until their script has run, for sites of tests."""

from __future__ import annotations

from tests.support.crawl_site import Answer, Reply

_SCRIPT = """const main = document.createElement('main'); root.append(main);
main.innerHTML = `<h1>Item ${location.pathname.split('/').pop()}</h1><p>%s</p>`"""


def shell(beside: str = "", links: str = "") -> Reply:
    """A page whose script writes the last part of its path as a heading, a paragraph and links; `beside` is there
    without."""
    script = _SCRIPT % ("Filled by a script. " * 20 + links)
    return Reply(f"<body><div id=root></div>{beside}<script>{script}</script></body>".encode())


def linked(*paths: str) -> str:
    """Links to paths."""
    return "".join(f'<a href="{path}">{path}</a> ' for path in paths)


def numbered_shells(count: int, fan: int = 4) -> Answer:
    """Shells /p/0 to /p/(count - 1): each links to `fan` further on, and back to the first one."""

    def answer(path: str) -> Reply | None:
        number = path.removeprefix("/p/")
        if not path.startswith("/p/") or not number.isdigit() or int(number) >= count:
            return None
        n = int(number)
        further = [f"/p/{m}" for m in range(n * fan + 1, n * fan + fan + 1) if m < count]
        return shell(links=linked(*further, "/p/0"))

    return answer
