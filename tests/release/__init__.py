"""The steps of a release, on toys."""
