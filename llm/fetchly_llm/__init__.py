"""The engine: token ids and a JSON Schema in, a valid JSON text out. It knows nothing of web pages."""
