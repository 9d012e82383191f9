#!/usr/bin/env python3
"""Tests the chat page in Chromium, over a server that behaves as launch/serve. --pictures FOLDER writes what it looks like."""
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import browser
import scene
from server_double import PROPS, Double

ANSWERED = "!document.body.classList.contains('busy') && document.querySelector('.answer:last-child .tools')"
LAST = "document.querySelector('.answer:last-child').innerText"
AT_END = 'innerHeight + scrollY > document.documentElement.scrollHeight - 90'
PICTURES = pathlib.Path(sys.argv.pop(2)) if sys.argv[1:2] == ['--pictures'] else None
if PICTURES:
    sys.argv.pop(1)


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


class Chat(PageCase):
    def test_an_answer_comes_with_its_figures(self):
        self.assertIn('You said: hello you', self.ask('hello you'))
        figures = '40 tokens · 20.0 tokens/s · first after 0.08 s · 60 % of guesses accepted'
        self.assertEqual(self.text('.answer:last-child .figures'), figures)
        self.assertEqual(self.last_messages(), [('user', 'hello you')])
        self.assertTrue(self.server.bodies[-1]['stream'])
        self.assertNotIn('temperature', self.server.bodies[-1])
        self.ask('and now')
        self.assertEqual(self.last_messages(), [('user', 'hello you'), ('assistant', 'You said: hello you'), ('user', 'and now')])
        self.assertEqual(self.browser.said, [])

    def test_text_is_shown_while_it_comes_and_a_stop_ends_the_request(self):
        for stop in lambda: self.browser.click('#send'), lambda: self.browser.press('Escape'):
            self.write('slow please')
            self.browser.until(f"{LAST}.includes('These words come at once.')")
            self.assertEqual(self.text('#send'), 'Stop')
            stop()
            self.assertTrue(self.server.went.acquire(timeout=browser.PATIENCE_S), 'the server was not told')
            self.browser.until(ANSWERED)
            self.assertIn('Stopped.', self.browser.value(LAST))
            self.assertEqual(self.text('#send'), 'Send')
        self.ask('go on')
        self.assertEqual(self.last_messages()[:2], [('user', 'slow please'), ('assistant', 'These words come at once. ')])

    def test_a_reload_keeps_the_chat_also_in_the_middle_of_an_answer(self):
        self.ask('hello you')
        self.write('slow please')
        self.browser.until(f"{LAST}.includes('These words come at once.')")
        self.load()
        self.assertEqual(self.browser.value("document.querySelectorAll('.message').length"), 4)
        self.assertIn('before the answer was complete', self.browser.value(LAST))
        self.browser.click('#new')
        self.load()
        self.assertEqual(self.browser.value("document.querySelectorAll('.message').length"), 0)

    def test_the_chat_before_a_new_one_can_be_got_back(self):
        self.ask('hello you')
        self.browser.click('#new')
        self.browser.click('.empty button')
        self.assertIn('You said: hello you', self.browser.value(LAST))

    def test_lines_of_a_poem_stay_lines(self):
        self.write('the first line', key=None)
        self.browser.press('Enter', 8)
        self.ask('the second')
        self.assertEqual(self.browser.value("document.querySelectorAll('.answer p br').length"), 1)

    def test_the_progress_of_a_prompt_and_of_an_answer(self):
        self.write('read this')
        self.browser.until("document.querySelector('.answer .figures')?.innerText === 'reading 5 of 12 tokens'")
        self.server.go_on.set()
        self.browser.until(ANSWERED)
        self.server.go_on.clear()
        self.write('slow please')
        self.browser.until("/^5 tokens/.test(document.querySelector('.answer:last-child .figures')?.innerText)")

    def test_edit_and_retry(self):
        self.ask('first try')
        self.ask('second try')
        self.browser.click('.answer:last-child [aria-label^=Retry]')
        self.browser.until(ANSWERED)
        self.assertEqual(len(self.server.bodies), 3)
        self.assertEqual(self.server.bodies[1], self.server.bodies[2])
        self.browser.click('.user .tools button')
        self.browser.value("document.querySelector('.user textarea').value = ''")
        self.write('better try', '.user textarea')
        self.browser.until(ANSWERED)
        self.assertEqual(self.last_messages(), [('user', 'better try')])
        self.assertEqual(self.browser.value("document.querySelectorAll('.message').length"), 2)

    def test_thinking_is_folded(self):
        self.ask('think hard')
        self.assertRegex(self.text('.answer details'), r'^Thought for \d+\.\d s$')
        self.browser.click('.answer summary')
        self.browser.until("document.querySelector('.thinking em')?.innerText === 'weigh'")
        self.ask('more')
        self.assertNotIn('First I look', str(self.server.bodies[-1]))

    def test_settings_are_sent_and_kept(self):
        self.browser.click('#show-settings')
        for name, value in ('system', 'Be brief.'), ('temperature', '0'), ('max-tokens', '50'):
            self.write(value, f'#{name}', None)
        self.browser.click('#settings .main')
        for _ in range(2):
            self.ask('hello')
            self.assertEqual(self.last_messages()[0], ('system', 'Be brief.'))
            self.assertEqual((self.server.bodies[-1]['temperature'], self.server.bodies[-1]['max_tokens']), (0, 50))
            self.load()

    def test_keys(self):
        self.write('one line', key=None)
        self.browser.press('Enter', 8)
        self.write('another')
        self.browser.until(ANSWERED)
        self.assertEqual(self.last_messages(), [('user', 'one line\nanother')])
        self.browser.press('ArrowUp')
        self.assertEqual(self.browser.value('document.activeElement.value'), 'one line\nanother')
        self.browser.press('Escape')
        self.assertEqual(self.browser.value('document.activeElement.innerText'), 'Edit')


class Errors(PageCase):
    def leave(self):
        self.server.shutdown()
        self.server.socket.close()

    def test_errors_are_said_and_a_retry_is_offered(self):
        for asked, said in (('refuse this', 'Something is wrong with this request.'), ('fail in the middle', 'Machine cellar is lost.'),
                            ('name a field', 'max_tokens is too large: «x»'),
                            ('overflow this', 'The chat no longer fits into the model’s context. '
                             'Edit an earlier message, or begin a new chat.'),
                            ('cut it', 'The server ended the answer before it was complete.')):
            with self.subTest(asked):
                self.ask(asked)
                self.assertEqual(self.text('.answer:last-child [role=alert]'), said)
                self.assertEqual(self.browser.value("document.querySelectorAll('[aria-label^=Retry]').length"), 1)
        self.assertIn('Half an answer', self.browser.value("document.querySelectorAll('.answer')[1].innerText"))
        self.assertIn('limit of its length', self.ask('limit it'))

    def test_a_server_that_is_gone(self):
        self.leave()
        self.write('hello')
        self.browser.until(ANSWERED)
        self.assertEqual(self.text('.answer [role=alert]'), 'The server cannot be reached. Is it still running?')

    def test_it_is_seen_that_the_server_goes_while_nobody_asks_and_comes_back(self):
        self.browser.until("document.querySelector('#machines li')")
        self.browser.click('#show-cluster')
        self.leave()
        self.browser.until("document.querySelector('#banner-text').innerText === 'The server cannot be reached.'")
        with Double(self.server.server_address[1]) as server:
            server.props, server.loaded = PROPS | {'model_alias': 'another', 'ranks': PROPS['ranks'][:1]}, .42
            self.browser.until("document.querySelector('#banner-text').innerText === 'Loading the model'")
            server.loaded = 1
            self.browser.until("document.querySelector('#model').innerText === 'another' && document.querySelector('#banner').hidden")
            self.assertEqual(self.browser.value("document.querySelectorAll('#machines li').length"), 1)
        self.browser.click('#show-cluster')  # asks at once
        self.browser.until("!document.querySelector('#banner').hidden")

    def test_loading_is_shown(self):
        self.server.loaded = .42
        self.load()
        self.browser.until("!document.querySelector('#banner').hidden")
        self.assertEqual(self.text('#banner-text'), 'Loading the model')
        self.assertAlmostEqual(self.browser.value("document.querySelector('progress').value"), .42)
        self.server.loaded = 1
        self.browser.until("document.querySelector('#banner').hidden && document.querySelector('#machines li')")

    def test_the_key_is_asked_for_and_kept_for_the_session(self):
        server = self.enterContext(Double(key='open sesame'))
        self.load(server)
        for hint, key in ('kept until this tab', 'wrong'), ('does not take the key', 'open sesame'):
            dialog = "document.querySelector('#ask-key')"
            self.browser.until(f"{dialog}.open && {dialog}.innerText.includes('{hint}')")
            self.write(key, '#key')
        self.browser.until("document.querySelector('#machines li')")
        for _ in range(2):
            self.ask('hello')
            self.assertFalse(self.browser.value("document.querySelector('#ask-key').open"))
            self.load(server)
        self.assertFalse(self.browser.value("JSON.stringify(localStorage).includes('sesame')"))
        self.assertNotIn('sesame', str(server.bodies))

    def test_without_the_key_nothing_is_answered_and_retry_asks_again(self):
        self.load(self.enterContext(Double(key='open sesame')))
        self.browser.until("document.querySelector('#ask-key').open")
        self.browser.click('#key-cancel')
        self.write('hello')
        self.browser.until("document.querySelector('#ask-key').open")
        self.browser.click('#key-cancel')
        self.browser.until("document.querySelector('.answer [role=alert]')")
        self.browser.click('[aria-label^=Retry]')
        self.browser.until("document.querySelector('#ask-key').open")


class Texts(PageCase):
    def test_markdown(self):
        self.ask('markdown please')
        quoted = 'The order of colours is always the same,\nfrom red outside to violet inside.'
        for selector, text in (('h2', 'Rainbows'), ('strong > em', 'nobody'), ('s', 'made of glass'), ('p > code', '42°'),
                               ('ol > li > ul > li', 'red leaves at 42°,'), ('blockquote', quoted), ('td', 'red'),
                               ('th:last-child', 'angle'), ('.bar span', 'python')):
            with self.subTest(selector):
                self.assertEqual(self.text(f'.answer {selector}').strip(), text)
        self.assertEqual(self.browser.value("document.querySelectorAll('.answer ol > li').length"), 3)
        self.assertEqual(self.browser.value("document.querySelector('.answer a').href"), 'https://en.wikipedia.org/wiki/Rainbow')
        self.assertIn('snake_case_words and 2 * 3 * 4 stay', self.browser.value(LAST))
        self.assertIn('    return {"red"', self.text('.answer pre'))

    def test_what_grows_is_what_is_made_at_once(self):
        self.write('halves please')
        self.browser.until(f"{LAST}.includes('red leaves at')")
        self.server.go_on.set()
        self.browser.until(ANSWERED)
        self.assertIn('snake_case_words', self.browser.value(LAST))
        grown = self.browser.value("document.querySelector('.answer > .text:not(details *)').outerHTML")
        self.load()
        self.assertEqual(grown, self.browser.value("document.querySelector('.answer > .text:not(details *)').outerHTML"))

    def test_code_is_copied(self):
        self.browser.send('Browser.grantPermissions', permissions=['clipboardReadWrite', 'clipboardSanitizedWrite'], origin=self.server.url)
        self.ask('markdown please')
        self.browser.click('.code button')
        self.browser.until("document.querySelector('.code button').innerText === 'Copied'")

    def test_hostile_text_stays_text(self):
        said = self.ask('hostile one')
        self.assertIn('<script>window.hurt = 1</script>', said)
        self.assertIsNone(self.browser.value('window.hurt ?? null'))
        allowed = {'A', 'BR', 'SPAN', 'P', 'DIV', 'SECTION', 'BUTTON', 'BLOCKQUOTE', 'UL', 'LI', 'DETAILS', 'SUMMARY', 'EM', 'STRONG'}
        made = set(self.browser.value("[...document.querySelectorAll('.answer, .answer *')].map(one => one.tagName)"))
        self.assertLessEqual(made, allowed)
        links = self.browser.value("[...document.links].map(one => [one.protocol, one.rel, one.innerText])")
        self.assertIn('good', [text for *_, text in links])
        self.assertNotIn('bad', [text for *_, text in links])
        self.assertLessEqual({(protocol, rel) for protocol, rel, _ in links},
                             {(f'http{s}:', 'noopener noreferrer nofollow') for s in ('', 's')})
        self.assertIn('https://example.org/(x)', [text for *_, text in links])
        self.assertEqual(self.browser.said, [])  # nothing had to be prevented

    def test_a_script_that_is_not_the_pages_does_not_run(self):
        self.browser.value("""{ const script = document.createElement('script');
            try { script.textContent = 'window.hurt = 1'; } catch { script.append('window.hurt = 1'); } document.body.append(script); }""")
        self.assertIsNone(self.browser.value('window.hurt ?? null'))
        self.assertTrue(self.browser.said)

    def test_a_long_text_is_followed_unless_the_reader_scrolls_up(self):
        self.ask('long one')
        self.assertEqual(self.browser.value("document.querySelectorAll('.answer p').length"), 1500)
        self.assertTrue(self.browser.value(AT_END))
        self.write('slow please')
        self.browser.until(f"{LAST}.includes('These words')")
        self.browser.value('scrollTo(0, 100)')
        self.browser.until("!document.querySelector('#to-end').hidden")
        self.server.go_on.set()
        self.browser.until(ANSWERED)
        self.assertEqual(self.browser.value('scrollY'), 100)
        self.browser.click('#to-end')
        self.browser.until(AT_END)

    def test_the_end_stays_visible_when_the_width_changes_unless_the_reader_scrolled_up(self):
        self.ask('wide one')
        self.browser.until(f"document.querySelector('#to-end').hidden && {AT_END}")
        for width in 500, 1000:
            self.browser.look(width, 860)
            self.browser.until(f'innerWidth === {width} && {AT_END}')
        for _ in range(2):
            self.browser.click('#show-cluster')
            self.assertLessEqual(self.browser.value('document.documentElement.scrollHeight - innerHeight - scrollY'), 1)
        self.browser.value('scrollTo(0, 100)')
        self.browser.until("!document.querySelector('#to-end').hidden")
        self.browser.look(500, 860)
        self.browser.until('innerWidth === 500')
        self.assertFalse(self.browser.value(f'new Promise(done => requestAnimationFrame(() => setTimeout(() => done({AT_END}))))'))


class Looks(PageCase):
    def test_the_cluster(self):
        self.browser.until("document.querySelectorAll('#machines li').length === 4")
        self.assertEqual(self.text('#machines li:nth-child(2)').split('\n'), ['attic', 'layers 10–17'])
        self.assertEqual(self.text('#machines li:nth-child(4)').split('\n'), ['old-laptop', 'guesses tokens'])
        held = "[...document.querySelectorAll('.held')].map(one => [one.x, one.width].map(it => Math.round(it.baseVal.value)))"
        self.assertEqual(self.browser.value(held), [[0, 33], [33, 27], [60, 40]])
        self.assertEqual(self.text('#model'), PROPS['model_alias'])
        self.write('slow please')
        self.browser.until("document.querySelectorAll('.runs i').length === 3")
        self.browser.click('#show-cluster')
        self.assertFalse(self.browser.value("document.querySelector('#cluster').checkVisibility()"))

    def test_everything_has_a_name_and_fits_on_a_phone(self):
        for width, height, touch in (1280, 860, False), (320, 640, True):
            self.browser.look(width, height, touch=touch)
            self.write('markdown please', key=None)
            self.browser.click('#send')  # on a phone, Enter begins a new line
            self.browser.until(ANSWERED)
            self.assertLessEqual(self.browser.value('document.documentElement.scrollWidth'), width)
            for node in self.browser.send('Accessibility.getFullAXTree')['nodes']:
                if node.get('role', {}).get('value') in ('button', 'textbox', 'link', 'dialog', 'log', 'spinbutton', 'region'):
                    self.assertTrue(node.get('name', {}).get('value'), node)
        self.assertIn('Answer: # Rainbows', self.browser.value("document.querySelector('[role=status]').textContent"))

    @unittest.skipUnless(PICTURES, 'no --pictures')
    def test_pictures(self):
        self.ask('think Why is the sky blue?')
        self.ask('markdown Tell me about rainbows')
        for name, *look in (('light', 1280, 860), ('dark', 1280, 860, 'dark'), ('phone', 390, 844, 'light', True),
                            ('phone-dark', 390, 844, 'dark', True)):
            self.browser.look(*look)
            if name == 'phone':
                self.browser.click('#show-cluster')
            self.browser.value('scrollTo(0, 200)')
            self.browser.picture(PICTURES / f'{name}.png')


@unittest.skipUnless(scene.packages.system_python_has(scene.packages.MODULES) or not scene.packages.missing(),
                     'no uvicorn or jinja2 here; launch/install-packages --serve')
class RealServer(PageCase):
    """launch/serve itself, in front of an engine that needs no model."""

    def test_a_chat_with_a_key(self):
        folder = scene.build_folder(self.enterContext(tempfile.TemporaryDirectory()))
        key = pathlib.Path(folder, 'key')
        key.write_text('open sesame\n')
        key.chmod(0o600)
        server = scene.Running(folder, '--api-key-file', str(key))
        self.addCleanup(server.end)
        server.url = f'http://127.0.0.1:{server.port}'
        self.load(server)
        self.browser.until("document.querySelector('#ask-key').open")
        self.write('open sesame', '#key')
        self.browser.until("document.querySelector('#machines li')")
        self.assertIn('Hi there', self.ask('Please «say»**Hi** there«end»'))
        self.assertEqual(self.text('.answer strong'), 'Hi')
        self.assertRegex(self.text('.answer .figures'), r'^12 tokens · .* tokens/s · first after .* · 50 % of guesses accepted$')
        self.assertIn('no longer fits', self.ask('x' * 5000))
        self.browser.click('#new')
        self.write('«wait»')
        self.browser.until("document.querySelector('#send').innerText === 'Stop' && document.querySelector('.answer:last-child')")
        self.browser.press('Escape')
        self.browser.until(ANSWERED)
        self.assertIn('Stopped.', self.browser.value(LAST))
        while any(slot['is_processing'] for slot in server.ask('GET', '/slots', headers={'authorization': 'Bearer open sesame'}).json()):
            pass  # the server has to notice it before it is told to end


if __name__ == '__main__':
    if not browser.program():
        print('skipped: no Chromium here; launch/install-packages --browser installs it')
        sys.exit(77)
    unittest.main()
