"""A crawl whose pages are read, and whose records are written, by the machines of a Ray cluster."""
