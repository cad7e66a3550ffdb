"""A plain bootstrap that computes the metric anew on every draw, for comparison."""

import numpy as np

from albert.tasks.metrics.intervals import NUM_RESAMPLES, Interval, iter_resamples, summarize_draws


def bootstrap_metric(predictions, *, golds, metric, seed, num_resamples=NUM_RESAMPLES) -> Interval:
    """Estimate the interval of any metric on the draws of `bootstrap_weighted`."""
    draws = [
        metric([predictions[row] for row in rows], golds=[golds[row] for row in rows])
        for rows in iter_resamples(len(golds), seed=seed, num_resamples=num_resamples)
    ]
    return summarize_draws(metric(predictions, golds=golds), draws=np.array(draws), level=0.95)
