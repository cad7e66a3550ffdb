"""Files to rows, and text to shards: row readers for corpora and tasks, and preparation of corpora."""
