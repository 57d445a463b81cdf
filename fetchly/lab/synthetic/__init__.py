"""Invented pages with random schemas and right answers: words, values, entries, layouts, pages, schemas, a corpus."""
