"""A chart comes in; a picture goes out. All that needs matplotlib is here, for those who draw."""
