"""Answers of first turns, which the prompts of second turns contain."""
import json

from . import plan


class Answers:
    """By model, prompt and what else determines a text: the file of the first run that wrote it."""

    def __init__(self, folder, rows):
        """folder: the results folder; rows: those that it has."""
        self.runs, self.files = folder / 'runs', {}
        for row in rows:
            self.learn(row)

    def learn(self, row):
        if row.get('token_ids_sha256') and not row['error']:
            self.files.setdefault(plan.text_group(row), self.runs / f'{row["run"]}.json')

    def prompt_of(self, run):
        """The text of a run's prompt; None if it is a second turn, and no run of the first has an answer."""
        if not run.prompt.after:
            return run.prompt.text
        file = self.files.get(plan.text_group({**run.columns, 'prompt': run.prompt.after}))
        return run.prompt.complete(json.loads(file.read_text())['text']) if file else None
