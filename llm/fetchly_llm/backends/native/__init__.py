"""The step interface in C++ for processors: int8 or fp32 weights, no torch, bits that depend on the path alone."""
