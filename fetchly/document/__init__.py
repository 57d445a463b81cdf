"""Page in, Document out."""
