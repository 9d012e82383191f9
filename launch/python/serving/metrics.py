"""What /metrics counts, in Prometheus' text format."""
import collections
import time

from . import protocol

HELP = {
    'requests_total': ('counter', 'HTTP requests, by status'),
    'generations_total': ('counter', 'texts that ended, by reason'),
    'prompt_tokens_total': ('counter', 'tokens of prompts'),
    'cached_tokens_total': ('counter', 'tokens of prompts that were in the cache'),
    'completion_tokens_total': ('counter', 'generated tokens, also of texts that go on'),
    'generation_seconds_total': ('counter', 'time from the first token of a text to its last'),
    'guesses_total': ('counter', 'guessed tokens that were verified'),
    'guesses_accepted_total': ('counter', 'guessed tokens that were accepted'),
    'pauses_total': ('counter', 'how often a text was paused because the cache was full'),
    'losses_total': ('counter', 'how often the engine was lost; open texts went on with the next one'),
    'engine_generation': ('gauge', 'engines that were started so far'),
    'machines': ('gauge', 'machines of the host file'),
    'machines_here': ('gauge', 'machines that take part'),
    'requests_running': ('gauge', 'texts that the engine has: those in slots, and those that wait for room in the cache'),
    'requests_waiting': ('gauge', 'texts that wait for their turn'),
    'slots': ('gauge', 'texts that can be generated at a time'),
    'slots_busy': ('gauge', 'texts that are being generated'),
    'cache_cells': ('gauge', 'tokens that the cache can hold'),
    'cache_cells_used': ('gauge', 'tokens in the cache of texts that are being generated'),
    'ready': ('gauge', '1 if the model is loaded'),
    'runs_in_flight': ('gauge', 'runs in the pipeline'),
    'uptime_seconds': ('gauge', 'since the start of the server'),
}


class Metrics:
    def __init__(self):
        self.begin, self.values = time.monotonic(), collections.Counter()

    def answered(self, status):
        self.values['requests_total', f'status="{status}"'] += 1

    def grown(self, tokens):
        """A text has so many tokens more."""
        self.values['completion_tokens_total', ''] += tokens

    def finished(self, generation, message):
        """A text has ended. `message`: the engine's last one."""
        usage, guesses = protocol.usage_of(message), message.get('speculation') or {}
        reason = message.get('reason', message['is']) if message['is'] == 'done' else message['is']
        self.values['generations_total', f'reason="{reason}"'] += 1
        for name in 'prompt', 'cached':
            self.values[f'{name}_tokens_total', ''] += usage[name]
        self.grown(max(0, usage['completion'] - generation.tokens))
        self.values['guesses_total', ''] += guesses.get('guessed', 0)
        self.values['guesses_accepted_total', ''] += guesses.get('accepted', 0)
        if generation.first:
            self.values['generation_seconds_total', ''] += time.monotonic() - generation.first

    def tokens(self):
        """Generated so far."""
        return self.values['completion_tokens_total', '']

    def text(self, others):
        """`others`: {name: value} of what is not counted here."""
        values = {(name, ''): 0 for name, (kind, _) in HELP.items() if kind == 'counter' and name != 'requests_total'}
        values.pop(('generations_total', ''))
        values |= self.values
        values |= {(name, ''): value for name, value in (others | {'uptime_seconds': time.monotonic() - self.begin}).items()}
        lines = []
        for name, (kind, help_text) in HELP.items():
            lines += [f'# HELP yamata_{name} {help_text}', f'# TYPE yamata_{name} {kind}']
            lines += [f'yamata_{name}{{{labels}}} {value:g}' if labels else f'yamata_{name} {value:.10g}'
                      for (its, labels), value in sorted(values.items()) if its == name]
        return '\n'.join(lines) + '\n'
