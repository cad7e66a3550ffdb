"""A module of ours comes in; the command that runs its `main` in a Python of its own goes out."""

import sys


def build_command(module: str) -> list[str]:
    """What to start, arguments to be added; the modules that it finds are those that this process finds.

    `python -m` would look first into the folder in which the user stands: an `albert` or a `random.py` there
    would be taken for ours, or for Python's.
    """
    places = [place for place in sys.path if isinstance(place, str)]  # Python passes over all others
    code = f"import sys; sys.path[:] = {places!a}; from {module} import main; main()"
    return [sys.executable, "-c", code]
