"""A chat: what was said, and what goes to the server."""
import json
import time

from common.problem import Problem


def text_of(value):
    return value if isinstance(value, str) else ''


def object_of(value):
    return value if isinstance(value, dict) else {}


class Answer:
    """An answer that grows. `text`, `thinking`: so far; `finish`: why it ended; `timings`, `usage`: as the server sends them."""

    def __init__(self):
        self.begin, self.first_s = time.monotonic(), None
        self.text, self.thinking, self.finish, self.timings, self.usage = '', '', None, {}, {}

    def take(self, event):
        """Adds an event of the stream. Returns what it adds to the thinking and to the text."""
        choices = event.get('choices')
        choice = object_of(choices[0]) if isinstance(choices, list) and choices else {}
        delta = object_of(choice.get('delta'))
        thinking, text = text_of(delta.get('reasoning_content')), text_of(delta.get('content'))
        if (thinking or text) and self.first_s is None:
            self.first_s = time.monotonic() - self.begin
        self.thinking += thinking
        self.text += text
        self.finish = choice.get('finish_reason') or self.finish
        self.timings = object_of(event.get('timings')) or self.timings
        self.usage = object_of(event.get('usage')) or self.usage
        return thinking, text

    def statistics(self):
        """A line about its speed; empty: the server has said nothing of it."""
        tokens, rate = self.usage.get('completion_tokens'), self.timings.get('predicted_per_second')
        parts = [f'{tokens} tokens' + (f' at {rate:.1f} tokens/s' if isinstance(rate, (int, float)) else '')] if tokens else []
        if self.first_s is not None:
            parts.append(f'first after {self.first_s:.2f} s')
        if guesses := self.timings.get('draft_n'):
            parts.append(f'{self.timings.get("draft_n_accepted", 0)} of {guesses} guesses accepted')
        if prompt := self.usage.get('prompt_tokens'):
            cached = object_of(self.usage.get('prompt_tokens_details')).get('cached_tokens') or 0
            parts.append(f'{prompt} tokens of prompt' + (f', {cached} of them cached' if cached else ''))
        return ', '.join(parts)


class Conversation:
    """`parameters`: fields of each request besides the messages."""

    def __init__(self, client, system='', **parameters):
        self.client, self.system, self.parameters = client, system, parameters
        self.messages = []
        self.failed = None  # the last message of the user, if it got no answer

    def ask(self, text, shown):
        """Sends a message; `shown(thinking, text)` gets each piece of the answer. Returns the Answer. If it fails before its first word
        (Problem, KeyboardInterrupt), the message is no part of the chat, but can be asked again."""
        self.messages.append({'role': 'user', 'content': text})
        self.failed = None
        answer = Answer()
        system = [{'role': 'system', 'content': self.system}] if self.system else []
        try:
            for event in self.client.stream({'messages': system + self.messages, 'stream_options': {'include_usage': True},
                                             'model': 'default', **self.parameters}):
                shown(*answer.take(event))
        finally:
            if answer.text:
                self.messages.append({'role': 'assistant', 'content': answer.text})
            else:
                self.messages.pop()
                self.failed = text
        return answer

    def last_question(self):
        """Takes back the last message of the user and its answer, and returns the message. Raises Problem if there is none."""
        if self.failed is not None:
            return self.failed
        if not self.messages:
            raise Problem('nothing has been said yet')
        self.messages.pop()
        return self.messages.pop()['content']

    def clear(self):
        self.messages, self.failed = [], None

    def saved(self, as_json):
        """The chat as a JSON object with its messages, or as Markdown."""
        system = [{'role': 'system', 'content': self.system}] if self.system else []
        if as_json:
            return json.dumps({'messages': system + self.messages}, ensure_ascii=False, indent=2) + '\n'
        parts = [f'## {message["role"].capitalize()}\n\n{message["content"].strip()}\n' for message in system + self.messages]
        return '\n'.join(parts)
