"""predictions and gold answers → scores: pure functions, without torch and without files.

The definitions (`classification`, `multilabel`, `regression`, `entities`, `calibration`) are fractions from 0
to 1, or correlations from -1 to 1, as in scikit-learn, scipy and seqeval. What a task is judged by
(`task_score`, `glue`, `squad`, `race`) is in points of 100, as its official evaluation prints it.
"""
