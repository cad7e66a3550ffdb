"""SQuAD's two evaluation scripts, reimplemented for comparison."""

import random
import re
import string
from collections import Counter

from albert.tasks.metrics.squad import SquadScores

# Articles, punctuation, Unicode spaces, combining accents, letters whose lower case is longer.
_VISIBLE = """
the a an The AN THE and then Athens theatre a-the U.S. 1,000 $5 50% don't rock'n'roll _ -- ... " '
ß İ ı ſ ﬁ Σ ς é É ½ ² Ａ ｔｈｅ ！ ， 。 … “ ” ’ — « » 中 文 中文 🙂 ® € ª º
"""
FRAGMENTS = [
    *_VISIBLE.split(),
    *("e\u0301", "a\u0301", "an\u0308", "the\u0327", "\u0301", "\u0345", "\u20dd"),
    *(" ", " ", " ", "  ", "\t", "\n", "\r\n", "\u00a0", "\u3000", "\u2009", "\u2028", "\x1c", "\x85"),
    *("\u200b", "\u200d", "\u2060", "\ufeff", "\u00ad", "\u061c"),
]


def draw_answer(rng: random.Random) -> str:
    glue = rng.choice(["", " ", " ", "\u00a0"])
    return glue.join(rng.choices(FRAGMENTS, k=rng.choice([0, 1, 1, 2, 3, 4, 6])))


def draw_golds(rng: random.Random, *, prediction: str, least: int) -> list[str]:
    """Gold answers, some of them close to the prediction."""
    near = [prediction, f"the {prediction}", prediction.upper(), f"{prediction} x", prediction[1:]]
    size = rng.randint(least, 4)
    return [rng.choice(near) if rng.random() < 0.4 else draw_answer(rng) for _ in range(size)]


def normalize(text: str) -> str:
    text = text.lower()
    excluded = set(string.punctuation)
    text = "".join(char for char in text if char not in excluded)
    text = re.sub(r"\b(a|an|the)\b", " ", text, flags=re.UNICODE)
    return " ".join(text.split())


def exact_of(gold: str, prediction: str) -> int:
    return int(normalize(gold) == normalize(prediction))


def f1_of_first_version(gold: str, prediction: str) -> float:
    words, gold_words = normalize(prediction).split(), normalize(gold).split()
    num_same = sum((Counter(words) & Counter(gold_words)).values())
    if num_same == 0:
        return 0
    precision = 1.0 * num_same / len(words)
    recall = 1.0 * num_same / len(gold_words)
    return (2 * precision * recall) / (precision + recall)


def f1_of_second_version(gold: str, prediction: str) -> float:
    words = normalize(prediction).split() if prediction else []
    gold_words = normalize(gold).split() if gold else []
    if len(gold_words) == 0 or len(words) == 0:
        return int(gold_words == words)
    return f1_of_first_version(gold, prediction)


class SecondVersion:
    """The 2.0 script: raw scores, and whether a question has answers."""

    def __init__(self, golds: dict[str, list[str]], predictions: dict[str, str], null_odds: dict[str, float]):
        self.predictions, self.null_odds = predictions, null_odds
        self.has_answer = {key: bool(texts) for key, texts in golds.items()}
        self.raw: dict[str, dict[str, float]] = {"exact": {}, "f1": {}}
        for key, texts in golds.items():
            kept = [text for text in texts if normalize(text)] or [""]
            self.raw["exact"][key] = max(exact_of(text, predictions[key]) for text in kept)
            self.raw["f1"][key] = max(f1_of_second_version(text, predictions[key]) for text in kept)

    def report(self, threshold: float) -> dict[str, float]:
        scores = {name: self._apply(raw, threshold) for name, raw in self.raw.items()}
        found: dict[str, float] = {}
        for prefix, wanted in (("", {True, False}), ("HasAns_", {True}), ("NoAns_", {False})):
            keys = [key for key, has_answer in self.has_answer.items() if has_answer in wanted]
            if keys:
                for name, values in scores.items():
                    found[prefix + name] = 100.0 * sum(values[key] for key in keys) / len(keys)
                found[f"{prefix}total"] = len(keys)
        return found

    def _apply(self, raw: dict[str, float], threshold: float) -> dict[str, float]:
        return {
            key: float(not self.has_answer[key]) if self.null_odds[key] > threshold else score
            for key, score in raw.items()
        }

    def best(self, name: str) -> tuple[float, float]:
        """Search the best score and its threshold, from the smallest null odds up."""
        scores = self.raw[name]
        current = best_score = float(sum(not has_answer for has_answer in self.has_answer.values()))
        best_threshold = 0.0
        for key in sorted(self.null_odds, key=lambda key: self.null_odds[key]):
            change = scores[key] if self.has_answer[key] else (-1 if self.predictions[key] else 0)
            current += change
            if current > best_score:
                best_score, best_threshold = current, self.null_odds[key]
        return 100.0 * best_score / len(scores), best_threshold


def name_scores(scores: SquadScores) -> dict[str, float]:
    """Our scores under the names that the script of SQuAD 2.0 prints."""
    parts = {"": scores.overall, "HasAns_": scores.has_answer, "NoAns_": scores.no_answer}
    return {
        f"{prefix}{name}": getattr(part, name)
        for prefix, part in parts.items()
        if part is not None
        for name in ("exact", "f1", "total")
    }
