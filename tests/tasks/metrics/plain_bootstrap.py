"""The bootstrap as it is explained: the metric is computed anew on every draw of the examples."""

import numpy as np

from albert.tasks.metrics.intervals import NUM_RESAMPLES, Interval, iter_resamples, summarise_draws


def bootstrap_metric(predictions, *, golds, metric, seed, num_resamples=NUM_RESAMPLES) -> Interval:
    """The interval of any metric of (predictions, golds), on the draws that `bootstrap_times` has."""
    draws = [
        metric([predictions[row] for row in rows], golds=[golds[row] for row in rows])
        for rows in iter_resamples(len(golds), seed=seed, num_resamples=num_resamples)
    ]
    return summarise_draws(metric(predictions, golds=golds), draws=np.array(draws), level=0.95)
