"""An evaluation → a page that a person reads: scores, confusions, honesty and the worst errors."""
