"""Files to rows, text to shards: row readers shared by corpora and tasks, and preparation of corpora."""
