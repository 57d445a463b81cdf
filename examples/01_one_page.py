"""A page in, a typed record out, with the place on the page of every value."""

from pathlib import Path

from pydantic import BaseModel, Field

import fetchly

PAGE = Path(__file__).parent / "pages" / "teapot.html"


class Teapot(BaseModel):
    name: str | None = Field(description="Name of the product.", json_schema_extra={"x-verbatim": True})
    price: float | None = Field(description="What it costs now.")
    article_number: str | None = Field(json_schema_extra={"x-verbatim": True})


def main() -> None:
    result = fetchly.extract(PAGE, Teapot)
    print(result.record)
    for pointer, evidence in result.evidence.items():
        print(pointer, "->", evidence.css_path if evidence.found else "not found on the page")


if __name__ == "__main__":
    main()
