"""Batch experiments: plan (list of runs), running (a single run), results (the folder), summary and plots (evaluation)."""
