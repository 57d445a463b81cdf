"""Records in, files and tables that hold each of them exactly once out; knows nothing of crawls."""
