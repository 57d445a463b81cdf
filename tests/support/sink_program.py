"""A program that writes the batches of tests.support.sinks into sinks, to be killed: JSON options in."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from fetchly.sinks.opening import open_sink
from fetchly.sinks.options import SinkOptions
from fetchly.sinks.sink import Table
from tests.support.sinks import SCHEMA, batches


def main() -> None:
    options, folder, pages = json.loads(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    sinks = [open_sink(SinkOptions.model_validate(each)) for each in options]
    table = Table("books", SCHEMA, "run", "settings", folder)
    positions = [sink.open(table, resume=True) for sink in sinks]
    print(*positions, flush=True)
    for batch in batches(pages):
        for number, (sink, position) in enumerate(zip(sinks, positions, strict=True)):
            if batch.first > position:
                sink.write(batch)
                if batch.last % (number + 2) == 0:
                    sink.flush()
        print(batch.last, flush=True)
        time.sleep(0.001)
    for sink in sinks:
        sink.finish()
        sink.close()


if __name__ == "__main__":
    main()
