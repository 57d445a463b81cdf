"""A pipeline: rows of a folder of pages, trimmed to what is wanted, into a database, and each as it comes."""

import asyncio
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import fetchly

PIPELINE = {  # the same as a YAML file says it: docs/pipelines.md
    "name": "shelf",
    "source": {"files": str(Path(__file__).parent / "pages" / "*.html")},
    "extract": {"schema": "product"},
    "transform": {
        "keep": ["name", "price", "currency"],
        "rename": {"name": "product"},
        "set": {"shelf": "kitchen"},
    },
    "sinks": [{"sqlite": {"path": "shelf.db", "table": "products"}}],
}


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        pipeline = fetchly.Pipeline.from_dict(PIPELINE, folder=folder)  # its paths begin there
        async for row in pipeline.records():
            print(row)
        with closing(sqlite3.connect(Path(folder) / "shelf.db")) as database:
            print(database.execute("SELECT count(*), sum(price) FROM products").fetchone())


if __name__ == "__main__":
    asyncio.run(main())
