#!/usr/bin/env python3
"""Tests how texts are shown on the chat page, its looks, and launch/serve behind it. --pictures FOLDER writes what it looks like."""
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import page_case
import scene
from page_case import ANSWERED, AT_END, LAST, PageCase
from server_double import PROPS

PICTURES = pathlib.Path(sys.argv.pop(2)) if sys.argv[1:2] == ['--pictures'] else None
if PICTURES:
    sys.argv.pop(1)


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
        sides = self.browser.value("[...document.querySelectorAll('.answer tr')].map(row => row.lastChild.className)")
        self.assertEqual(sides, ['right'] * 3)
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

    def figure(self, name):
        its = f"[...document.querySelectorAll('#figures > div')].find(it => it.innerText.startsWith('{name}'))"
        return f"{its}?.querySelector('b').innerText"

    def test_slots_queue_cache_and_speed_of_all(self):
        self.browser.until(f"{self.figure('Answers in progress')} === '0 of 1'")
        for name in 'Requests waiting', 'Cache in use', 'Pauses':
            self.assertIsNone(self.browser.value(self.figure(name)))
        self.server.metrics = ('yamata_requests_waiting 3\nyamata_cache_cells 8192\nyamata_cache_cells_used 2048\n'
                               'yamata_pauses_total 2\n')
        self.write('slow please')
        for name, value in (('Answers in progress', '1 of 1'), ('Requests waiting', '3'), ('Cache in use', '25 % of 8192 tokens'),
                            ('Pauses for lack of cache', '2')):
            self.browser.until(f"{self.figure(name)} === '{value}'")
        self.browser.until(f"Number({self.figure('Tokens/s')}) > 0")
        self.server.tokens += 1000000  # of other texts
        self.browser.until(f"Number({self.figure('Tokens/s')}) > 1000")

    def test_a_loss_is_counted_and_the_machines_that_are_left_are_shown(self):
        self.server.metrics = 'yamata_machines 4\nyamata_machines_here 4\nyamata_engine_generation 1\nyamata_ready 1\n'
        self.write('slow please')
        self.browser.until(f"{self.figure('Answers in progress')} === '1 of 1'")
        self.assertIsNone(self.browser.value(self.figure('Machines')))
        self.server.metrics = ('yamata_machines 4\nyamata_machines_here 3\nyamata_losses_total 1\nyamata_engine_generation 2\n'
                               'yamata_ready 1\n')
        ranks = PROPS['ranks']
        self.addCleanup(PROPS.__setitem__, 'ranks', ranks)
        PROPS['ranks'] = ranks[:2]
        for name, value in (('Machines', '3 of 4'), ('Losses survived', '1')):
            self.browser.until(f"{self.figure(name)} === '{value}'")
        self.browser.until("document.querySelectorAll('#machines li').length === 2")

    def test_in_a_narrow_window_the_cluster_covers_the_chat_only_while_one_looks_at_it(self):
        shown = "!document.querySelector('#cluster').hidden"
        self.assertTrue(self.browser.value(shown))
        self.browser.look(800, 860)
        self.browser.until(f'!({shown})')
        for close in lambda: self.browser.press('Escape'), lambda: self.browser.click('#log'):
            self.browser.click('#show-cluster')
            self.assertTrue(self.browser.value(shown))
            close()
            self.assertFalse(self.browser.value(shown))
        self.browser.look(1280, 860)
        self.browser.until(shown)

    def test_an_empty_page_needs_no_scroll_bar(self):
        for width, height in (1280, 801), (1920, 1080), (390, 844), (305, 480):
            self.browser.look(width, height)
            size = "['scrollWidth', 'scrollHeight'].map(name => document.documentElement[name])"
            self.assertEqual(self.browser.value(size), [width, height])

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
        slots = lambda: server.ask('GET', '/slots', headers={'authorization': 'Bearer open sesame'}).json()
        while not (slot := slots()[0])['is_processing']:
            pass  # the request is still on its way
        self.assertRegex(slot['response'], '^chatcmpl-')
        self.browser.press('Escape')
        self.browser.until(ANSWERED)
        self.assertIn('Stopped.', self.browser.value(LAST))
        while any(slot['is_processing'] for slot in slots()):
            pass  # the server has to notice it before it is told to end


if __name__ == '__main__':
    page_case.main()
