"""Models as files for other runtimes."""
