"""Run `main` of one of our modules in a Python process of its own."""

import sys


def build_command(module: str) -> list[str]:
    """Build the command; it uses the module path of this process.

    `python -m` would look into the current directory first, where an `albert` or a `random.py` may be.
    """
    places = [place for place in sys.path if isinstance(place, str)]  # Python passes over all others
    code = f"import sys; sys.path[:] = {places!a}; from {module} import main; main()"
    return [sys.executable, "-c", code]
