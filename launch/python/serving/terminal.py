"""What the server prints: lines, and a bar while the model is loaded."""
import json
import shlex
import sys

from . import styles

WIDTH = 30


class Terminal:
    """Everything goes to standard error."""

    def __init__(self):
        self.bar, self.is_terminal = False, sys.stderr.isatty()

    def say(self, text):
        sys.stderr.write(('\r\x1b[K' if self.bar else '') + text + '\n')
        self.bar = False
        sys.stderr.flush()

    def loading(self, share):
        if self.is_terminal:
            filled = int(WIDTH * share)
            sys.stderr.write(f'\rloading [{"#" * filled}{"." * (WIDTH - filled)}] {100 * share:3.0f} %')
            self.bar = True
            sys.stderr.flush()


def address_of(listener):
    host, port = listener.getsockname()[:2]
    host = {'0.0.0.0': '127.0.0.1', '::': '[::1]'}.get(host, f'[{host}]' if ':' in host else host)
    return f'http://{host}:{port}'


def curl(address, key_file):
    """A command that works here."""
    key = f' -H "Authorization: Bearer $(head -n 1 {shlex.quote(key_file)})"' if key_file else ''
    body = json.dumps({'messages': [{'role': 'user', 'content': 'Hello'}], 'max_tokens': 32})
    return f"curl {address}/v1/chat/completions -H 'Content-Type: application/json'{key} -d '{body}'"


def layout_of(ready):
    ranks = ready.get('ranks') or []
    count = len(ranks) if isinstance(ranks, list) else ranks
    return f'{count} rank{"" if count == 1 else "s"}' + (f': {ready["layout"]}' if ready.get('layout') else '')


def greeting(server, address, key_file):
    """The lines when it is ready."""
    ready = server.engine.ready
    lines = [f'{server.name} is served at {address} (chat page), {address}/v1 (API)',
             f'{layout_of(ready)}; a context of {ready.get("context")} tokens; try:', f'  {curl(address, key_file)}']
    if server.style is styles.GENERIC and 'tools' not in server.template.source:
        lines.insert(1, "the model's template has no place for tools; they are described in the system prompt")
    return '\n'.join(lines)
