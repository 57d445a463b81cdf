"""One model for many pages: the second page of a schema reuses the first one's prompt prefix."""

import asyncio
from pathlib import Path

import fetchly

PAGES = sorted((Path(__file__).parent / "pages").glob("*.html"))


async def main() -> None:
    async with fetchly.AsyncClient() as client:
        for page, result in zip(
            PAGES, await asyncio.gather(*(client.extract(page, "product") for page in PAGES)), strict=True
        ):
            stats = result.stats
            print(page.name, result.record["name"], result.record["price"])
            print(f"  {stats.cached_prompt_tokens} of {stats.prompt_tokens} prompt tokens came from the prefix cache")


if __name__ == "__main__":
    asyncio.run(main())
