"""A corpus folder and what it shall hold come in; what is finished there already goes out."""

from collections import Counter
from collections.abc import Sequence

from albert.data.manifest import MANIFEST_NAME, Manifest, SourceEntry, read_manifest
from albert.data.sources import Source
from albert.data.storage import Storage
from albert.data.survey import SourceSurvey
from albert.data.units import PrepareSettings
from albert.errors import InputError
from albert.reporting import Reporter


def check_finished(
    out: Storage,
    *,
    vocabulary: str,
    settings: PrepareSettings,
    sources: Sequence[Source],
    overwrite: bool,
) -> Manifest | None:
    """The manifest of a finished corpus; refused: one of other settings, vocabulary or sources.

    With `overwrite` nothing counts as finished, and only what is no corpus is refused.
    """
    if out.find_size(MANIFEST_NAME) is None:
        return None
    manifest = read_manifest(out)
    if overwrite:
        return None
    if manifest.vocabulary != vocabulary or manifest.settings != settings.model_dump():
        what = "another vocabulary" if manifest.vocabulary != vocabulary else "other settings"
        raise InputError(f"{out.place}: holds a corpus of {what}; choose another --out, or add --overwrite")
    if (missing := find_missing(manifest, sources)) is not None:
        raise InputError(
            f"{out.place}: holds a corpus of other sources ({missing} is not among these); choose "
            "another --out, or add --overwrite"
        )
    return manifest


def is_whole(out: Storage, manifest: Manifest) -> bool:
    """Whether all shards are there and are what the manifest says."""
    return all(
        out.is_whole(shard.name, num_bytes=shard.num_bytes, sha256=shard.sha256) for shard in manifest.shards
    )


def find_missing(before: Manifest, sources: Sequence[Source]) -> str | None:
    """The first source of a corpus that is not among these; None where all are.

    More sources, or changed ones, are another state of the same corpus; fewer are another corpus. Files of
    different folders may share a name: there must be as many of it.
    """
    left = Counter(source.name for source in sources)
    for entry in before.sources:
        if not left[entry.name]:
            return entry.name
        left[entry.name] -= 1
    return None


def is_same(before: Manifest, surveys: Sequence[SourceSurvey], reporter: Reporter) -> bool:
    """Whether the sources are those of the corpus that is there; what is new or changed is told."""
    sources = tuple(map(describe_source, surveys))
    old, new = ({entry.name: entry for entry in entries} for entries in (before.sources, sources))
    for name in {**old, **new}:
        if name not in old:
            reporter.say(f"{name}: is new")
        elif old[name] != new[name]:
            reporter.say(f"{name}: changed since the corpus was prepared")
    return before.sources == sources


def describe_source(survey: SourceSurvey) -> SourceEntry:
    """A source as the manifest has it."""
    return SourceEntry(
        name=survey.name,
        num_bytes=survey.num_bytes,
        sha256=survey.sha256,
        layout=survey.layout,
        skipped=survey.skipped,
    )
