"""The specification: a plain torch transformer in fp32 whose bits depend on a token's own path alone."""
