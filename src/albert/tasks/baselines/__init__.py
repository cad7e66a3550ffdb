"""Answers without a model of language: what every fine-tuned model has to beat."""
