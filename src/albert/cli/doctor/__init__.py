"""Diagnose training runs and the machine they run on."""
