"""Benchmarks against alternatives, with both sides interleaved in one run: `make bench`."""
