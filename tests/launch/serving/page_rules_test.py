#!/usr/bin/env python3
"""Tests what can be seen in the text of the chat page: its Content-Security-Policy fits it, no other host is named, nothing parses HTML,
and its colours can be read."""
import base64
import hashlib
import html.parser
import pathlib
import re
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / 'launch' / 'python'))
from serving import page

PAGE = page.Page()


class Elements(html.parser.HTMLParser):
    """`found`: (tag, attributes, text) of each element; `text` is what is between its tag and the next one."""

    def __init__(self):
        super().__init__()
        self.found, self.within = [], False
        self.feed(PAGE.text)

    def handle_starttag(self, tag, attrs):
        self.found.append([tag, dict(attrs), ''])
        self.within = True

    def handle_endtag(self, tag):
        self.within = False

    def handle_data(self, data):
        if self.within:
            self.found[-1][2] += data

    def texts(self, tag):
        return [text for name, _, text in self.found if name == tag]


def luminance(colour):
    parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= .03928 else ((part + .055) / 1.055) ** 2.4 for part in parts)
    return .2126 * red + .7152 * green + .0722 * blue


def contrast(one, other):
    """As WCAG has it, from 1 to 21."""
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + .05) / (darker + .05)


class Rules(unittest.TestCase):
    def setUp(self):
        self.elements = Elements()

    def test_the_policy_allows_its_script_and_style_and_nothing_else(self):
        directives = dict(part.strip().partition(' ')[::2] for part in PAGE.policy.split(';'))
        for tag in 'script', 'style':
            hashes = [f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in self.elements.texts(tag)]
            self.assertEqual(directives.pop(f'{tag}-src').split(), hashes)
            self.assertEqual(len(hashes), 1)
        self.assertEqual(directives, {'default-src': "'none'", 'connect-src': "'self'", 'base-uri': "'none'", 'form-action': "'none'",
                                      'frame-ancestors': "'none'", 'require-trusted-types-for': "'script'", 'trusted-types': "'none'"})

    def test_no_handler_style_or_address_is_in_an_attribute(self):
        for tag, attributes, _ in self.elements.found:
            for name in attributes:
                self.assertFalse(name.startswith('on') or name in ('style', 'src', 'href', 'action', 'srcset'), f'{tag} {name}')
            self.assertNotIn(tag, ('img', 'iframe', 'object', 'embed', 'link', 'base', 'form' if attributes.get('action') else ''))

    def test_no_other_host_is_named(self):
        self.assertEqual(re.findall(r'\w+://[\w.-]+', PAGE.text), ['http://www.w3.org'])  # the namespace of SVG
        self.assertNotIn('@import', PAGE.text)
        self.assertNotIn('url(', PAGE.text)
        self.assertEqual({path for path in re.findall(r"(?:call|fetch)\('([^']*)'", PAGE.text)},
                         {'v1/chat/completions', 'slots', 'metrics', 'health', 'props'})

    def test_nothing_parses_html_or_code(self):
        for word in ('innerHTML', 'outerHTML', 'insertAdjacentHTML', 'document.write', 'DOMParser', 'eval(', 'Function(', 'srcdoc',
                     'createContextualFragment', 'cookie', "setAttribute('style"):
            self.assertNotIn(word, PAGE.text)

    def test_each_field_has_a_label(self):
        labels = {attributes['for'] for tag, attributes, _ in self.elements.found if tag == 'label' and 'for' in attributes}
        for tag, attributes, _ in self.elements.found:
            if tag in ('input', 'textarea'):
                wrapped = re.search(rf'<label><span>[^<]+</span><{tag} id="{attributes["id"]}"', PAGE.text)
                self.assertTrue(wrapped or attributes['id'] in labels, attributes)

    def test_colours_can_be_read(self):
        light, dark = (dict(re.findall(r'--([\w-]+): (#\w{6})', block)) for block in re.findall(r':root \{(.*?)\}', PAGE.text, re.S))
        for colours in light, dark:
            for ink, paper in (('text', 'page'), ('text', 'raised'), ('text', 'quiet'), ('text', 'accent-soft'), ('dim', 'page'),
                               ('dim', 'raised'), ('dim', 'quiet'), ('on-accent', 'accent'), ('accent', 'page'), ('bad', 'bad-soft')):
                self.assertGreaterEqual(contrast(colours[ink], colours[paper]), 4.5, (ink, paper))

    def test_each_file_of_its_folder_is_in_it(self):
        for path in page.FOLDER.iterdir():
            text = path.read_text(encoding='utf-8')
            for part in re.split('<style></style>|<script type="module"></script>', text):
                self.assertTrue(part and part in PAGE.text, path.name)


if __name__ == '__main__':
    unittest.main()
