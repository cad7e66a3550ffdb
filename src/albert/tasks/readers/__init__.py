"""Read the files of a task as examples."""
