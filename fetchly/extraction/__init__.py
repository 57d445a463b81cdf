"""Document and schema in, Record out."""
