"""Workloads in; side-by-side measurements of one engine against itself, in one process, out."""
