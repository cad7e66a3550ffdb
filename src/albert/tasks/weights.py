"""Training examples come in; how much a mistake in each class counts goes out."""

from collections import Counter
from collections.abc import Sequence

from albert.errors import InputError
from albert.tasks.examples import Example, list_label_places
from albert.tasks.task_facts import TaskFacts


def count_class_weights(examples: Sequence[Example], facts: TaskFacts) -> tuple[float, ...]:
    """Balanced: every class counts the same as a whole, and the mean over the examples (or words) is 1."""
    if facts.kind not in ("texts", "words") or facts.label_kind != "one":
        raise InputError(
            f"class_weights=balanced for {facts.task}: only classes of which one is right can be weighed; "
            "leave it out"
        )
    counts = Counter(label for example in examples for label in list_label_places(example))
    total, num_classes = counts.total(), len(facts.labels)
    # A class that nothing teaches cannot be mistaken in training either.
    return tuple(
        total / (num_classes * counts[place]) if counts[place] else 1.0 for place in range(num_classes)
    )
