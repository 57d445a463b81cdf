"""The sections `source`, `extract` and `run` in; the client and the crawl's options that they describe out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fetchly.crawler.http import USER_AGENT
from fetchly.crawling.options import CrawlOptions
from fetchly.extraction.generator import Generator
from fetchly.pipeline.pipeline import Pipeline
from fetchly.sdk import Client


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a pipeline is run this time. `limit` stands in for that of the file; `failed` goes with `resume`."""

    resume: bool = False
    failed: bool = False
    limit: int | None = None


def client_of(pipeline: Pipeline, generator: Generator | None, progress: Any) -> Client:
    """A client. Nothing is fetched or loaded yet."""
    source, extract, run = pipeline.source, pipeline.extract, pipeline.spec.run
    return Client(
        extract.model,
        device=extract.device,
        threads=extract.threads,
        timeout=run.timeout,
        allow_private=source.allow_private,
        render=source.render,
        browser_path=str(source.browser_path) if source.browser_path is not None else None,
        actions=source.actions,
        scroll=source.scroll,
        storage_state=source.storage_state,
        user_agent=source.user_agent or USER_AGENT,
        keep_hidden=source.keep_hidden,
        cache=run.cache,
        cache_dir=run.cache_dir,
        cache_mb=run.cache_mb,
        offline=extract.offline,
        progress=progress,
        api_key=extract.api_key.get_secret_value() if extract.api_key is not None else None,
        generator=generator,
        schema_mode=extract.schema_mode,
        temperature=extract.temperature,
        seed=extract.seed,
        attempts=extract.attempts,
        max_tokens=extract.max_tokens,
        budget=extract.budget,
        verbatim=extract.verbatim,
        draft=extract.draft,
        verify=extract.verify,
    )


def crawl_options(pipeline: Pipeline, options: RunOptions, state: Path | None) -> CrawlOptions:
    """Errors: ConfigurationError."""
    source, run = pipeline.source, pipeline.spec.run
    return CrawlOptions(
        limit=options.limit or source.limit,
        follow=source.follow,
        exclude=source.exclude,
        depth=source.reach,
        sitemap=source.sitemap is True,
        per_shape=source.per_shape,
        delay_s=run.delay,
        per_host=run.per_host,
        concurrency=run.concurrency,
        tries=run.tries,
        state=state,
        resume=options.resume,
        failed=options.failed,
        near_duplicates=source.near_duplicates,
        stop_at_failure=run.error == "stop",
        memory_limit=run.memory_limit,
    )
