"""Side by side with the alternatives, in one run: `make bench`."""
