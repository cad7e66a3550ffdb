"""Raw text comes in, ids of pieces with their places in the text go out; import the modules by name."""
