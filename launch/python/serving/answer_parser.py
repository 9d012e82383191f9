"""Divides the text of a model, which comes in pieces, into thinking, content and tool calls. Parsers have feed(piece) and end(), which
return [(kind, value)]: ('content', text), ('reasoning', text), ('call', (name, arguments))."""
import re

from . import tool_calls
from .text_filters import first_marker, held_back


def joined(parts):
    """Neighbours of one kind as one; empty texts are dropped."""
    out = []
    for kind, value in parts:
        if out and kind == out[-1][0] != 'call':
            out[-1] = kind, out[-1][1] + value
        elif value:
            out.append((kind, value))
    return out


class PlainParser:
    """All is content."""

    def feed(self, piece):
        return [('content', piece)] if piece else []

    def end(self):
        return []


class ForcedParser:
    """The whole text is one call, which a schema guarantees. `name`: the text is only its arguments."""

    def __init__(self, name=None):
        self.name, self.text = name, ''

    def feed(self, piece):
        self.text += piece
        return []

    def end(self):
        values = tool_calls.values_of(self.text)
        call = tool_calls.call_of({'name': self.name, 'arguments': values[0]} if self.name else values[0]) if values else None
        return [('call', call)] if call else joined([('content', self.text)])


class Parser:
    """For the styles that have markers. `opened`: the prompt ended within thinking. `tools`: names that may be called; empty: none."""

    def __init__(self, style, opened, tools):
        self.style, self.tools = style, tools
        self.mode, self.rest, self.begun, self.marker = ('reasoning' if opened else 'content'), '', False, ''

    def markers(self):
        if self.mode == 'reasoning':
            return [self.style.think[1]]
        if self.mode == 'call':
            return [self.style.end] if self.style.end else []
        return [*self.style.think[:1], *(self.style.begin if self.tools else ())]

    def feed(self, piece):
        self.rest += piece
        parts = []
        while self.step(parts):
            pass
        return joined(parts)

    def step(self, parts):
        """Takes what is certain from the rest; whether a marker was found."""
        if self.mode == 'content' and not self.begun and self.bare_call():
            self.mode, self.rest = 'bare', self.rest.lstrip()
        if self.mode == 'bare':
            return False
        markers = self.markers()
        found = first_marker(self.rest, markers)
        if self.mode == 'call':
            if not found:
                return False
            calls = self.calls(self.rest[:found[0]], found[1])
            parts += calls
        else:
            sure = found[0] if found else len(self.rest) - held_back(self.rest, markers)
            self.pass_on(self.rest[:sure], parts)
            if not found:
                self.rest = self.rest[sure:]
                return False
        self.rest = self.rest[found[0] + len(found[1]):]
        was_text = self.mode == 'call' and calls[0][0] == 'content'
        self.turn(found[1])
        self.begun = was_text
        return True

    def turn(self, marker):
        if self.mode != 'content':
            self.mode = 'content'
        elif marker in self.style.think:
            self.mode = 'reasoning'
        else:
            self.mode, self.marker = 'call', marker

    def pass_on(self, text, parts):
        """White space at the beginning of thinking, and between it and the content, is none of them."""
        if not self.begun:
            text = text.lstrip() if self.style.think or self.tools else text
        if text:
            self.begun = True
            parts.append((self.mode, text))

    def bare_call(self):
        return self.style.bare and self.tools and self.rest.lstrip()[:1] == '{'

    def calls(self, body, end):
        """The calls in a body; what is none of a known tool stays text."""
        found = self.style.read(body) if self.style.read else None
        if not found or any(name not in self.tools for name, _ in found):
            return [('content', self.marker + body + end)]
        return [('call', call) for call in found]

    def end(self):
        """The text is over: an open call may be complete all the same."""
        rest, self.rest = self.rest, ''
        if self.mode in ('call', 'bare'):
            return joined(self.calls(rest, ''))
        parts = []
        self.pass_on(rest, parts)
        return joined(parts)


class HarmonyParser:
    """gpt-oss: <|channel|>NAME<|message|>text<|end|>, where the channel analysis is thinking, final is content, and commentary with a
    recipient is a call."""

    HEAD, TEXT = ['<|message|>'], ['<|end|>', '<|return|>', '<|call|>', '<|channel|>', '<|start|>']

    def __init__(self, tools, head=''):
        self.tools, self.rest, self.in_head, self.head, self.body = tools, head, True, '', ''

    def feed(self, piece):
        self.rest += piece
        parts = []
        while True:
            markers = self.HEAD if self.in_head else self.TEXT
            found = first_marker(self.rest, markers)
            sure = found[0] if found else len(self.rest) - held_back(self.rest, markers)
            self.take(self.rest[:sure], parts)
            self.rest = self.rest[sure + len(found[1]):] if found else self.rest[sure:]
            if not found:
                return joined(parts)
            self.turn(parts)

    def recipient(self):
        found = re.search(r'to=(?:functions\.)?([\w.:-]+)', self.head)
        return found[1] if found and found[1] in self.tools else None

    def take(self, text, parts):
        if self.in_head:
            self.head += text
        elif self.recipient():
            self.body += text
        elif text:
            parts.append(('reasoning' if 'analysis' in self.head else 'content', text))

    def turn(self, parts):
        """From a head to its text, or back."""
        self.in_head = not self.in_head
        if not self.in_head:
            return
        if self.recipient():
            call = tool_calls.call_of({'name': self.recipient(), 'arguments': self.body})
            parts.append(('call', call) if call else ('content', self.body))
        self.head, self.body = '', ''

    def end(self):
        parts = []
        if not self.in_head:
            self.take(self.rest, parts)
            self.turn(parts)
        elif '<|' not in self.head + self.rest and not self.head.startswith('assistant'):
            parts.append(('content', self.head + self.rest))
        self.rest = ''
        return joined(parts)
