"""Words, tables and charts come in; pages that a person reads go out: HTML, Markdown, CSV and SVG."""
