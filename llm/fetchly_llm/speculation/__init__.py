"""Draft trees in, accepted paths out; plain integers, no tensors."""
