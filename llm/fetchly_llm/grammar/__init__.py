"""JSON Schema in; grammar, matcher, token bitmask and lint findings out."""
