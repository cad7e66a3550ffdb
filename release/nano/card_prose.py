"""The card's text without figures: metadata for the hub, limits and license."""

from albert.report.content import Section

FRONT_MATTER = """---
license: apache-2.0
language: en
library_name: transformers
pipeline_tag: fill-mask
tags:
- albert
- masked-lm
- sentence-order-prediction
- cpu
---

"""

LIMITS = Section(
    "Limits",
    paragraphs=[
        "It is very small and has read very little. Use it to try things out, to teach, to test, and as a "
        "start for fine-tuning where a few megabytes and milliseconds matter; not for facts, and not "
        "for decisions about people.",
        "Most of what it has read are novels of the Victorian age and just after. They say what their "
        "time said of women, of servants, of foreigners, of peoples under colonial rule and of religion, "
        "often in words that are insults today, and it has learned these associations. It knows next to "
        "nothing of what came after, but for two textbooks.",
        "English only, in lower case and without accents. Longer texts than it has positions for must be "
        "cut. Of two segments it tells the order within one text; it was not taught whether two texts belong "
        "together.",
        "Dates, names, numbers and rare words are cut into several pieces, and one [MASK] stands for one "
        "piece. Negation, counting and knowledge of the world are weak: see its wrong answers above.",
    ],
)

LICENCE = Section(
    "Licence",
    paragraphs=[
        "Apache 2.0, for weights and code. The novels are in the public domain; the textbooks are under "
        "CC BY 4.0, with the attribution that is given above under Data."
    ],
)
