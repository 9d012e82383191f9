"""What tests of the chat page share: Chromium, over a server that behaves as launch/serve."""
import sys
import unittest

sys.dont_write_bytecode = True
import browser
from server_double import Double

ANSWERED = "!document.body.classList.contains('busy') && document.querySelector('.answer:last-child .tools')"
LAST = "document.querySelector('.answer:last-child').innerText"
AT_END = 'innerHeight + scrollY > document.documentElement.scrollHeight - 90'


class PageCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = cls.enterClassContext(browser.Browser())

    def setUp(self):
        self.server = self.enterContext(Double())
        self.browser.open('about:blank')  # what the page before says does not count
        self.browser.look(1280, 860)
        self.load()

    def load(self, server=None):
        """Opens the page of a server. Each has a port of its own, so the browser keeps nothing for it."""
        self.browser.said.clear()
        self.browser.open((server or self.server).url + '/')

    def write(self, text, selector='#prompt', key='Enter'):
        self.browser.value(f"document.querySelector('{selector}').focus()")
        self.browser.type(text)
        if key:
            self.browser.press(key)

    def ask(self, text):
        """Sends a message, and returns what is seen of the answer when it is complete."""
        count = self.browser.value("document.querySelectorAll('.answer').length")
        self.write(text)
        self.browser.until(f"document.querySelectorAll('.answer').length > {count} && {ANSWERED}")
        return self.browser.value(LAST)

    def text(self, selector):
        return self.browser.value(f"document.querySelector('{selector}')?.innerText")

    def last_messages(self):
        return [(message['role'], message['content']) for message in self.server.bodies[-1]['messages']]


def main():
    if not browser.program():
        print('skipped: no Chromium here; launch/install-packages --browser installs it')
        sys.exit(77)
    unittest.main()
