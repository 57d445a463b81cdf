"""A pipeline file in, a checked Pipeline out; and what becomes of a record between the model and the sinks."""
