"""What the host has and what we take of it in; how much may be begun out: memory, processors, all our processes."""
