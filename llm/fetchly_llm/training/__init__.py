"""Examples in; adapters and the curves of their training out."""
