"""`python -m albert`."""

from albert.app.cli import main

main()
