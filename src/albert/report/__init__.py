"""Reports: plain values rendered as HTML, Markdown, CSV and SVG."""
