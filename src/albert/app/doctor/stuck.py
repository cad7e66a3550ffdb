"""Why nothing is learned: a run comes in; losses and accuracies that do not move go out as findings."""

import math
from dataclasses import dataclass

from albert.app.doctor.curves import Curve, Trend, fit_trend, read_curve
from albert.app.doctor.findings import Figure, Finding, Severity, number_cures
from albert.app.doctor.learning_rates import count_step_pieces, find_band
from albert.app.doctor.reading import PretrainRun
from albert.app.doctor.run import MIN_RECORDS, take_last_quarter

_PLATEAU = 0.97  # of the unigram loss; who is above has learned how frequent words are, and no more
_LEFT = 0.85  # here words are known from their neighbours
_FLAT = 0.01  # of its height is what a flat loss may fall in a quarter of the records
_NOISE = 0.04  # of its height is what two standard errors of that may be
_RISE = 0.02  # and what it must rise to be no plateau
_PATIENCE = 3000  # steps that small models have sat on the plateau before they left it
_MANY_STEPS = 10_000
_MAX_RATE_DISTANCE = 4.0


def check_words(run: PretrainRun) -> Finding | None:
    """The plateau: a loss of masked words that stays at the entropy of single pieces."""
    losses = _find_word_losses(run)
    unigram = run.facts.unigram_loss
    if not losses or min(losses.values()) < _PLATEAU * unigram:
        return None
    figures: dict[str, Figure] = {**losses, "unigram_loss": unigram, "step": run.step}
    trained = [record for record in run.trains if record["step"] > run.num_warmup]
    curve = read_curve(take_last_quarter(trained), "mlm_loss")
    trend = fit_trend(curve) if len(curve) >= MIN_RECORDS else None
    if trend is None or trend.is_falling(_FLAT) or not trend.is_known(_NOISE):
        return _judge_open_end(run, trend, figures)
    if trend.is_rising(_RISE):
        return None  # lost again is another illness
    return _judge_plateau(run, trend, figures)


def _judge_open_end(run: PretrainRun, trend: Trend | None, figures: dict[str, Figure]) -> Finding | None:
    """A loss that still falls, or whose direction is not known yet, is only wrong where no step is left."""
    if run.is_finished:
        title = "the run ended before masked words were learned"
        cure = f"train longer: num_steps={4 * run.settings.num_steps} or more, in a new run"
        return Finding("stuck", "warning", title, figures, cure)
    if trend is not None and trend.is_falling(_FLAT):
        return None
    figures["warm_up_steps"] = run.num_warmup
    later = max(run.num_warmup + MIN_RECORDS * run.settings.log_every, 2 * run.step)
    title = "it is too early to say whether masked words are learned"
    return Finding("stuck", "note", title, figures, f"look again after step {later:,}")


def _judge_plateau(run: PretrainRun, trend: Trend, figures: dict[str, Figure]) -> Finding:
    since = _find_beginning(run.train_curve("mlm_loss").smooth(5), trend.mean)
    num_steps = run.step - since
    is_long = run.is_finished or num_steps > _PATIENCE
    severity: Severity = "serious" if is_long else "warning"
    figures |= {
        "since_step": since,
        "change_in_1000_steps": 1000 * trend.slope,
        "standard_error": 1000 * trend.error,
    }
    is_near = trend.mean < (2 - _PLATEAU) * run.facts.unigram_loss
    return Finding(
        "stuck",
        severity,
        f"masked words are stuck since step {since:,}: the loss is {'' if is_near else 'above '}that of the "
        "mere frequency of pieces. Small ALBERTs sit there for thousands of steps",
        figures,
        number_cures(_list_plateau_cures(run)),
    )


def _list_plateau_cures(run: PretrainRun) -> list[str]:
    settings, cures = run.settings, []
    if settings.optimizer.name != "muon" and settings.strategy != "fsdp":
        muon = settings.optimizer.model_copy(update={"name": "muon"})
        rate = find_band(settings.model_copy(update={"optimizer": muon})).best
        cures.append(f"Muon: optimizer.name=muon optimizer.learning_rate={rate:.2g}")
    best = find_band(settings).best
    if settings.optimizer.learning_rate < 0.7 * best:
        cures.append(f"a higher peak learning rate: optimizer.learning_rate={best:.2g}")
    if count_step_pieces(settings) > 4096:
        cures.append(f"smaller batches and more steps: --batch-size {max(1, settings.batch_size // 2)}")
    layers = settings.model.num_hidden_layers if settings.model else 1
    if not settings.length_schedule and settings.examples.max_length > 32:
        cures.append("short sequences first: 'length_schedule=[{until: 0.7, value: 32}]'")
    if not settings.depth_schedule and layers > 1:
        cures.append("fewer layers first: 'depth_schedule=[{until: 0.5, value: 1}]'")
    if settings.position_init == "normal" and settings.init_from is None:
        cures.append("position_init=sinusoidal")
    cures.append("longer training" if run.is_finished else "patience; or more num_steps, in a new run")
    return cures


def _find_word_losses(run: PretrainRun) -> dict[str, float]:
    """The latest on held-out text and the mean of the last records of training, as far as there are."""
    held_out, train = run.held_out_curve("mlm_loss"), run.train_curve("mlm_loss")
    found = {}
    if len(held_out):
        found["held_out_mlm_loss"] = float(held_out.values[-1])
    if len(train):
        found["train_mlm_loss"] = float(train.values[-5:].mean())
    return found


def _find_beginning(curve: Curve, height: float) -> int:
    """The first step from which on a curve stays within 5% of a height."""
    away = (abs(curve.values - height) > 0.05 * height).nonzero()[0]
    first = int(away[-1]) + 1 if len(away) else 0
    return int(curve.steps[min(first, len(curve) - 1)])


@dataclass(frozen=True)
class Accuracy:
    """A share of right answers to questions of two answers."""

    mean: float
    num_asked: int

    @property
    def error(self) -> float:
        """The standard error of guessing."""
        return 0.5 / math.sqrt(self.num_asked)

    @property
    def is_chance(self) -> bool:
        """Whether guessing would often do as well."""
        return self.mean <= 0.5 + 2 * self.error


def check_pairs(run: PretrainRun) -> Finding | None:
    """The sentence objective at chance, although words are learned or many steps have passed."""
    name = run.pair_objective
    losses = _find_word_losses(run)
    curve = run.held_out_curve(f"{name}_accuracy")
    if name is None or not losses or not len(curve) or run.step <= run.num_warmup:
        return None
    # Every evaluation asks the same questions: their mean is steadier, but its error is that of one.
    num_asked = run.facts.num_asked or run.settings.held_out.num_examples
    held_out = Accuracy(float(curve.values[-3:].mean()), num_asked)
    train = _find_train_accuracy(run, name)
    height = min(losses.values()) / run.facts.unigram_loss
    is_time = height < _PLATEAU or run.step > _MANY_STEPS or run.is_finished
    if not held_out.is_chance or _is_learned(held_out, train) or not is_time:
        return None
    figures: dict[str, Figure] = {
        f"held_out_{name}_accuracy": held_out.mean,
        "standard_error": held_out.error,
        **({} if train is None else {f"train_{name}_accuracy": train.mean}),
        "word_loss_to_unigram_loss": height,
    }
    title = f"{name} is at chance; it usually begins to learn only after masked words have left the plateau"
    if height >= _PLATEAU:
        return Finding("stuck", "note", title, figures, "cure the plateau of the masked words first")
    if height >= _LEFT and not run.is_finished:
        return Finding("stuck", "note", title, figures, "wait: masked words have only just left the plateau")
    cures = [
        f"longer training: {run.step:,} steps are done",
        f"look at the pairs: `albert corpus show {run.facts.data} --example 0`; documents whose lines are "
        "shuffled or of one sentence teach no order",
        f"longer sequences than examples.max_length={run.settings.examples.max_length}",
    ]
    return Finding("stuck", "warning", title, figures, number_cures(cures))


def _is_learned(held_out: Accuracy, train: Accuracy | None) -> bool:
    """Few questions prove little: what training shows to be learned, and they do not refute, is learned."""
    if train is None or train.is_chance or train.mean < 0.55:
        return False
    return held_out.mean > train.mean - 2 * held_out.error


def _find_train_accuracy(run: PretrainRun, name: str) -> Accuracy | None:
    values = read_curve(run.recent, f"{name}_accuracy").values
    num_pairs = sum(record.get("batch_size", 0) for record in run.recent) * run.settings.log_every
    return Accuracy(float(values.mean()), num_pairs) if len(values) and num_pairs else None


def check_learning_rate(run: PretrainRun) -> Finding | None:
    """A peak learning rate far from those that are known to work with such batches."""
    optimizer, band = run.settings.optimizer, find_band(run.settings)
    distance = band.find_distance(optimizer.learning_rate)
    side = "high" if optimizer.learning_rate > band.high else "low"
    is_gentle = side == "low" and run.settings.init_from is not None  # a warm start may be
    if distance <= _MAX_RATE_DISTANCE or is_gentle:
        return None
    figures: dict[str, Figure] = {
        "learning_rate": optimizer.learning_rate,
        "pieces_a_step": band.num_pieces,
        "lowest": band.low,
        "highest": band.high,
        "times_outside": distance,
    }
    title = f"the learning rate is too {side} for {optimizer.name} with batches of {band.num_pieces:,} pieces"
    cure = f"in a new run, optimizer.learning_rate={band.best:.2g}"
    return Finding("stuck", "warning", title, figures, cure)
