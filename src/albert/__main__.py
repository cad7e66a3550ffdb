"""Run the command line with `python -m albert`."""

from albert.cli.main import main

main()
