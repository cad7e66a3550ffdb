"""A process of its own, with NAME, VERSION and FOLDER as arguments: fetches the source archive pip knows.

`pip download` of a source archive runs its setup.py, to learn what else is needed. Here pip's own machinery,
with all of its settings, finds the archive and copies it; nothing is unpacked. It stands on pip's insides,
which are no promise: whatever goes wrong there is one line, and ends this process alone.
"""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

ARCHIVE_NAME = "archive.tar.gz"
_SUFFIX = ".tar.gz"


def fetch(name: str, version: str, dest: Path) -> int:
    """Write the archive into `dest`; 0 where it is there."""
    index = import_module("pip._internal.commands.index")

    class FetchCommand(index.IndexCommand):  # type: ignore[misc, name-defined]
        """A command of pip's with the options that `pip download` would find in its settings."""

        def run(self, options: Any, args: list[str]) -> int:
            """Find the link and copy what it leads to."""
            with self._build_session(options) as session:
                finder = self._build_package_finder(options, session)
                link = _find_link(finder, name, version)
                if link is None:
                    return _fail(f"Could not find a source archive of {name}=={version}")
                _copy(session, link, dest / ARCHIVE_NAME)
            return 0

    words = ["--no-input", "--disable-pip-version-check"]
    return int(FetchCommand("download", "fetch a source archive").main(words))


def _find_link(finder: Any, name: str, version: str) -> Any:
    """The link of the archive, or None."""
    for candidate in finder.find_all_candidates(name):
        if str(candidate.version) == version and candidate.link.filename.endswith(_SUFFIX):
            return candidate.link
    return None


def _copy(session: Any, link: Any, path: Path) -> None:
    network = import_module("pip._internal.network.utils")
    url = link.url.partition("#")[0]
    # The bytes as they lie there: an archive that was unpacked on the way would have another hash.
    response = session.get(url, headers=network.HEADERS, stream=True)
    network.raise_for_status(response)
    with path.open("wb") as file:
        for chunk in network.response_chunks(response):
            file.write(chunk)


def _fail(reason: str) -> int:
    print(f"ERROR: {' '.join(reason.split())}", file=sys.stderr)
    return 1


def main() -> None:
    """The process itself."""
    try:
        code = fetch(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
    except Exception as error:  # pip's insides may have changed in any way
        code = _fail(f"{type(error).__name__}: {error}")
    sys.exit(code)
