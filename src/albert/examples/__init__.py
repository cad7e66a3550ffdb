"""Shards to batches: masked pairs of segments, made on the fly by index."""
