"""URL in, Page out."""
