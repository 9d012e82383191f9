"""Batch experiments: plan (what to run), running (one run), results (the folder), summary and plots (what came out)."""
