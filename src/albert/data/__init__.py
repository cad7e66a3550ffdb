"""Files to rows and text to shards: row readers shared by corpora and tasks, and the preparation of corpora."""
