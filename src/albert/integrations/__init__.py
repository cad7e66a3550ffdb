"""Make other libraries' models faster: text in, the same output objects out."""
