"""One module for each group of commands; heavy imports happen inside the functions."""
