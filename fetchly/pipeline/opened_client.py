"""The sections `source`, `extract` and `run` in; the client and the crawl's options that they describe out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fetchly.crawler.http import USER_AGENT
from fetchly.crawling.crawl import Means
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


@contextmanager
def open_client(
    pipeline: Pipeline, generator: Generator | None, progress: Any, say: Callable[[str], None]
) -> Iterator[tuple[Client, Means]]:
    """A client, and what its crawl works with: itself, or a Ray cluster. No page is fetched, and no model loaded, yet.

    Errors: ConfigurationError.
    """
    options, run = _client_options(pipeline, generator), pipeline.spec.run
    with Client(**options, progress=progress) as client:
        if run.runner == "local":
            yield client, client.means()
        else:
            from fetchly.cluster.cluster import Cluster

            with Cluster(options, engines=run.workers, pages=run.concurrency, say=say) as cluster:
                yield client, cluster.means(client)


def _client_options(pipeline: Pipeline, generator: Generator | None) -> dict[str, Any]:
    source, extract, run = pipeline.source, pipeline.extract, pipeline.spec.run
    return dict(
        model=extract.model,
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
