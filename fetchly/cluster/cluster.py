"""What a client is made of in; what a crawl works with, on the machines of a Ray cluster, out.

The crawl itself stays where it was begun: its state, the turns of hosts, robots.txt, and the sinks. The machines read
pages and write records; both are given back one by one, so that a crawl on a cluster is resumed, and keeps to its
limits, as any other, and one lost machine costs the pages that it was at one try.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Self

from fetchly.cluster.engines import ClusterExtraction
from fetchly.cluster.page_readers import ClusterReader
from fetchly.cluster.ray_session import RaySession
from fetchly.crawler.storage_state import load_storage_state
from fetchly.crawling.crawl import Means
from fetchly.sdk import Client


class Cluster:
    """Use as a context manager. `options` are those of Client, `engines` how many models there are (None: one for each
    GPU, or for each node where there is none), and `pages` how many pages are read side by side at most.

    Errors: ConfigurationError where Ray is not installed, or does not start.
    """

    def __init__(
        self,
        options: Mapping[str, Any],
        *,
        engines: int | None,
        pages: int,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._pages = pages
        self._say = say
        self._options = dict(options)
        if isinstance(self._options.get("storage_state"), str | os.PathLike):  # a file that the others may not have
            self._options["storage_state"] = load_storage_state(self._options["storage_state"]).content
        with ExitStack() as opened:
            self._session = opened.enter_context(RaySession())
            nodes = self._session.nodes()
            self._opened = opened.pop_all()
        gpus = sum(int(node.gpus) for node in nodes) if options.get("device", "auto") in ("auto", "cuda") else 0
        self._gpus = gpus > 0
        self._engines = engines or gpus or len(nodes)
        if not self._gpus and self._options.get("threads") is None:
            # Engines that share a machine share its cores.
            cores = int(min(node.cpus for node in nodes))
            side_by_side = min(math.ceil(self._engines / len(nodes)), max(1, cores))  # more have no room there
            self._options["threads"] = max(1, cores // side_by_side)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End what was started on the cluster, and the cluster, if it was started for this. Idempotent."""
        self._opened.close()

    def means(self, client: Client) -> Means:
        """What a crawl of this client works with. The client itself reads nothing, and loads no model."""
        means = client.means()
        reader = ClusterReader(self._session, self._options, means.choice, self._pages, self._say)
        self._opened.callback(reader.close)
        extraction = partial(ClusterExtraction, self._session, self._options, self._engines, self._gpus, self._say)
        return replace(means, reader=reader, extraction=extraction)
