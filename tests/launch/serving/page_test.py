#!/usr/bin/env python3
"""Tests chats and errors on the chat page."""
import sys

sys.dont_write_bytecode = True
import browser
import page_case
from page_case import ANSWERED, LAST, PageCase
from server_double import PROPS, Double


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
            self.assertIsNone(self.text('.answer:last-child .figures'))
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
        self.assertIsNone(self.text('[role=alert]'))
        self.browser.click('#new')
        self.load()
        self.assertEqual(self.browser.value("document.querySelectorAll('.message').length"), 0)

    def test_a_reload_while_a_prompt_is_read_ends_its_progress(self):
        self.write('read this')
        self.browser.until("document.querySelector('.answer .figures')?.innerText === 'reading 5 of 12 tokens'")
        self.load()
        self.assertIn('before the answer was complete', self.browser.value(LAST))
        self.assertIsNone(self.text('.answer .figures'))

    def test_the_chat_before_a_new_one_can_be_got_back(self):
        self.ask('hello you')
        self.browser.click('#new')
        self.load()
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

    def test_while_the_model_answers_somebody_else_the_figures_are_not_those_of_that_answer(self):
        self.server.response = 'of somebody else'
        self.write('read this')
        self.browser.until("document.querySelector('.answer .figures')?.innerText === 'waiting for another answer to end'")

    def test_nothing_is_said_of_the_answer_before_its_first_event(self):
        self.server.response = 'of somebody else'
        self.write('delay this')
        self.browser.until("document.querySelector('#figures').innerText.includes('1 of 1')")
        self.assertIsNone(self.text('.answer .figures'))

    def test_an_empty_answer_is_said(self):
        self.assertIn('The model ended its answer at once.', self.ask('nothing'))

    def test_nothing_can_be_edited_while_the_model_answers(self):
        edits = "[...document.querySelectorAll('.user .tools button')].map(one => one.disabled)"
        self.ask('first')
        self.write('slow please')
        self.browser.until(f"{LAST}.includes('These words come at once.')")
        self.assertEqual(self.browser.value(edits), [True, True])
        self.browser.press('Escape')
        self.browser.until(ANSWERED)
        self.assertEqual(self.browser.value(edits), [False, False])

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
        self.browser.click('#show-settings')
        self.browser.value("document.querySelector('#temperature').value = ''")
        self.write('0.333', '#temperature', None)
        self.browser.click('#settings .main')
        self.ask('hello')
        self.assertEqual(self.server.bodies[-1]['temperature'], 0.333)

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
                             'Shorten the message, edit an earlier one, or begin a new chat.'),
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
        self.assertEqual(self.text('#figures'), '')
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
        self.browser.until("document.querySelector('#layout').textContent === 'The server asks for a key.'")
        self.write('hello')
        self.browser.until("document.querySelector('#ask-key').open")
        self.browser.click('#key-cancel')
        self.browser.until("document.querySelector('.answer [role=alert]')")
        self.browser.click('[aria-label^=Retry]')
        self.browser.until("document.querySelector('#ask-key').open")
        self.write('open sesame', '#key')
        self.browser.until(f"{ANSWERED} && document.querySelector('#model').innerText === 'SmolLM2-135M-Instruct'")
        self.browser.until("document.querySelector('#machines li')")
        self.browser.click('#show-settings')
        self.write('Be brief.', '#system', None)
        self.browser.click('#forget-key')
        self.assertEqual(self.browser.value("document.querySelector('#system').value"), 'Be brief.')
        self.browser.click('#settings .main')
        self.write('hello')
        self.browser.until("document.querySelector('#ask-key').open")


if __name__ == '__main__':
    page_case.main()
