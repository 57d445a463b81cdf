"""The section `source`: which pages, and how they are read."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from fetchly.crawler.actions import MAX_ACTIONS, Action
from fetchly.crawler.scrolling import scrolling
from fetchly.crawler.traps import PER_SHAPE
from fetchly.pipeline.fields import (
    Count,
    FileGlob,
    Flag,
    LocalPath,
    Number,
    OneOrMore,
    PathGlob,
    Section,
    Text,
    Url,
    checked,
    refused,
)
from fetchly.settings import Settings

_DEFAULT = Settings()
Globs = Annotated[tuple[PathGlob, ...], OneOrMore()]
Urls = Annotated[tuple[Url, ...], OneOrMore()]


class UrlList(Section):
    """A list of URLs that lies elsewhere: exactly one of `file`, `csv` and `stdin`."""

    file: LocalPath | None = None
    """Text, a URL a line."""
    csv: LocalPath | None = None
    """A table whose first line names its columns."""
    stdin: Flag = False
    """Standard input: a URL a line, or a table where `column` is said."""
    column: Text | None = None
    """The column of the table that holds the URLs."""
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] | None = None
    """What separates the columns; by default a comma."""

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if (self.file is not None) + (self.csv is not None) + self.stdin != 1:
            raise refused("needs exactly one of file, csv and stdin: true")
        if (self.csv is not None) and self.column is None:
            raise refused("needs the column that holds the URLs", "column: url")
        if self.file is not None and self.column is not None:
            raise refused("has a column, but a file of lines has none", "name a table with csv: in place of file:")
        if self.column is None and self.delimiter is not None:
            raise refused("has a delimiter, but no column", "column: url")
        return self


def _kind(value: Any) -> str:
    return "flag" if isinstance(value, bool) else "urls"


class Source(Section):
    """Pages to begin with (`seeds`, `files`, `sitemap`, `urls`: at least one), and where their links lead on to."""

    seeds: Urls = ()
    """URLs; links are followed within their sites."""
    files: Annotated[tuple[FileGlob, ...], OneOrMore()] = ()
    """Globs of HTML files, such as pages/**/*.html; they have no links."""
    sitemap: Annotated[
        Annotated[bool, Field(strict=True), Tag("flag")] | Annotated[Urls, Tag("urls")], Discriminator(_kind)
    ] = False
    """true: begin with what the sitemaps of the seeds' sites list, too. Or the URLs of sitemaps."""
    urls: Annotated[tuple[UrlList, ...], OneOrMore()] = ()
    """Lists of URLs in files, in columns of tables, on standard input."""

    follow: Globs = ()
    """Globs of paths whose links are followed; by default all."""
    exclude: Globs = ()
    """Globs of paths that are left out; what is excluded wins."""
    depth: Annotated[int, Field(strict=True, ge=0)] | None = None
    """Most links between a page to begin with and another. 0, unless something is said, where there are neither seeds
    nor follow: a list is read as it is."""
    limit: Count | None = None
    """Pages to fetch, exactly, unless there are fewer."""

    render: Literal["never", "auto", "always"] = _DEFAULT.render
    """Run a page's scripts in a browser; auto does where a URL's answer is empty without."""
    browser_path: LocalPath | None = None
    """Which Chromium."""
    scroll: Annotated[Text, checked(scrolling)] = "auto"
    """auto scrolls pages that grow, and collects lists that recycle their rows; never; or bounds: items=200."""
    actions: Annotated[tuple[Action, ...], Field(max_length=MAX_ACTIONS)] = ()
    """What the browser does on each page that it renders: click, fill, press, select, scroll, wait, repeat."""
    storage_state: LocalPath | None = None
    """Cookies and local storage that the browser begins with, as Playwright writes them."""
    keep_hidden: Flag = False
    """Read what a page hides from its reader."""
    user_agent: Text | None = None
    """What requests call themselves; None: fetchly's own name."""
    allow_private: Flag = False
    """Allow loopback and private addresses."""
    near_duplicates: Annotated[Number, Field(ge=0.5, le=1)] | None = None
    """The likeness from which on a page is skipped as the double of another one, such as 0.95."""
    per_shape: Count = PER_SHAPE
    """Pages whose addresses differ in numbers alone: a calendar has no end."""

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if not (self.seeds or self.files or self.urls or self.sitemap_urls):
            raise refused("names no page to begin with", "seeds: [URL], files, urls, or sitemap: [URL]")
        if self.sitemap is True and not self.seeds and not self.urls:
            raise refused("has sitemap: true without a site", "name seeds, or the URLs of the sitemaps")
        if self.follow and self.reach == 0:
            raise refused("follows links, but at depth 0 there are none", "leave out depth, or follow")
        return self

    @property
    def sitemap_urls(self) -> tuple[str, ...]:
        """The sitemaps that are named."""
        return () if isinstance(self.sitemap, bool) else self.sitemap

    @property
    def reach(self) -> int | None:
        """The depth that counts."""
        return 0 if self.depth is None and not self.seeds and not self.follow else self.depth
