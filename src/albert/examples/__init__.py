"""shards → batches: masked, ordered pairs made on the fly, by index."""
