"""What /metrics counts, in Prometheus' text format."""
import collections
import time

from . import protocol

HELP = {
    'requests_total': ('counter', 'HTTP requests, by status'),
    'generations_total': ('counter', 'texts that ended, by reason'),
    'prompt_tokens_total': ('counter', 'tokens of prompts'),
    'cached_tokens_total': ('counter', 'tokens of prompts that were in the cache'),
    'completion_tokens_total': ('counter', 'generated tokens'),
    'generation_seconds_total': ('counter', 'time from the first token of a text to its last'),
    'guesses_total': ('counter', 'guessed tokens that were verified'),
    'guesses_accepted_total': ('counter', 'guessed tokens that were accepted'),
    'requests_running': ('gauge', 'texts that the engine works on'),
    'requests_waiting': ('gauge', 'texts that wait for a slot'),
    'ready': ('gauge', '1 if the model is loaded'),
    'runs_in_flight': ('gauge', 'runs in the pipeline'),
    'uptime_seconds': ('gauge', 'since the start of the server'),
}


class Metrics:
    def __init__(self):
        self.begin, self.values = time.monotonic(), collections.Counter()

    def answered(self, status):
        self.values['requests_total', f'status="{status}"'] += 1

    def finished(self, generation, message):
        """A text has ended. `message`: the engine's last one."""
        usage, guesses = protocol.usage_of(message), message.get('speculation') or {}
        reason = message.get('reason', message['is']) if message['is'] == 'done' else message['is']
        self.values['generations_total', f'reason="{reason}"'] += 1
        for name, tokens in usage.items():
            self.values[f'{name}_tokens_total', ''] += tokens
        self.values['guesses_total', ''] += guesses.get('guessed', 0)
        self.values['guesses_accepted_total', ''] += guesses.get('accepted', 0)
        if generation.first:
            self.values['generation_seconds_total', ''] += time.monotonic() - generation.first

    def text(self, gauges):
        """`gauges`: {name: value}."""
        values = {(name, ''): 0 for name, (kind, _) in HELP.items() if kind == 'counter' and name != 'requests_total'}
        values.pop(('generations_total', ''))
        values |= self.values
        values |= {(name, ''): value for name, value in (gauges | {'uptime_seconds': time.monotonic() - self.begin}).items()}
        lines = []
        for name, (kind, help_text) in HELP.items():
            lines += [f'# HELP yamata_{name} {help_text}', f'# TYPE yamata_{name} {kind}']
            lines += [f'yamata_{name}{{{labels}}} {value:g}' if labels else f'yamata_{name} {value:.10g}'
                      for (its, labels), value in sorted(values.items()) if its == name]
        return '\n'.join(lines) + '\n'
