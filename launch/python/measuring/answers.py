"""Which runs must write the same text; answers of first turns, which the prompts of second turns contain."""
import json
import shlex

# With these flags, a different text is not an error.
CHANGES_TEXT = {'--temp', '--top-k', '--top-p', '--min-p', '--repeat-penalty', '--repeat-last-n', '-s', '--seed', '--ignore-eos', '--pre',
                '-c', '--ctx-size', '--cache-type', '--cache-type-k', '-ctk', '--cache-type-v', '-ctv', '-n', '--predict'}


def text_group(row):
    """Rows with the same key must have the same tokens. With typical acceptance, they depend on the guesses."""
    guesses = ['strategy', *sorted(key for key in row if key.startswith('-'))] if '--acceptance typical' in row['command'] else []
    keys = ['model', 'prompt', 'tokens', 'temperature', 'seed', *(guesses or sorted(CHANGES_TEXT))]
    return tuple((key, str(row[key])) for key in keys if row.get(key, '') != '')


class Answers:
    """By model, prompt and what else determines a text: the file of the first run that wrote it."""

    def __init__(self, folder, rows):
        """folder: the results folder; rows: those that it has."""
        self.runs, self.files = folder / 'runs', {}
        for row in rows:
            self.learn(row)

    def learn(self, row):
        if row.get('token_ids_sha256') and not row['error']:
            self.files.setdefault(text_group(row), self.runs / f'{row["run"]}.json')

    def prompt_of(self, run):
        """The text of a run's prompt; None if it is a second turn, and no run of the first has an answer."""
        if not run.prompt.after:
            return run.prompt.text
        file = self.files.get(text_group({**run.columns, 'prompt': run.prompt.after, 'command': shlex.join(run.command)}))
        return run.prompt.complete(json.loads(file.read_text())['text']) if file else None
