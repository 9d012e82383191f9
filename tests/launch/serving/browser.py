"""A Chromium without a screen, driven by the DevTools protocol over two pipes."""
import base64
import collections
import contextlib
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import tempfile
import time

FLAGS = ['--headless=new', '--remote-debugging-pipe', '--no-first-run', '--no-default-browser-check', '--disable-gpu',
         '--disable-extensions', '--disable-background-networking', '--disable-component-update', '--disable-sync',
         '--disable-dev-shm-usage', '--hide-scrollbars']
KEYS = {'Enter': (13, '\r'), 'Escape': (27, ''), 'Tab': (9, ''), 'ArrowUp': (38, '')}
PATIENCE_S = 60 * int(os.environ.get('YAMATA_PATIENCE', 1))


def program():
    """The path of Chromium; None: there is none."""
    return next(filter(None, map(shutil.which, ('chromium', 'chromium-browser', 'google-chrome'))), None)


class Browser(contextlib.AbstractContextManager):
    """A browser with one page, which ends with the block. `said`: what the page has written to its console, its uncaught errors, and what
    its Content-Security-Policy has prevented."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix='yamata-browser-', ignore_cleanup_errors=True)
        to_browser, self.requests = os.pipe()
        self.answers, from_browser = os.pipe()
        # The protocol's pipes are descriptors 3 and 4. Root has no sandbox.
        root = ['--no-sandbox'] if os.getuid() == 0 else []
        self.process = subprocess.Popen(
            ['bash', '-c', f'exec "$@" 3<&{to_browser} 4>&{from_browser}', 'bash', program(), *FLAGS, *root,
             f'--user-data-dir={self.folder.name}', 'about:blank'], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, pass_fds=(to_browser, from_browser), start_new_session=True)
        os.close(to_browser)
        os.close(from_browser)
        self.rest, self.number, self.session, self.said, self.events = b'', 0, None, [], collections.Counter()
        target = next(one for one in self.send('Target.getTargets')['targetInfos'] if one['type'] == 'page')
        self.session = self.send('Target.attachToTarget', targetId=target['targetId'], flatten=True)['sessionId']
        for domain in 'Page', 'Runtime', 'Log':
            self.send(f'{domain}.enable')
        self.send('Emulation.setFocusEmulationEnabled', enabled=True)

    def __exit__(self, *_):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.requests)
        os.close(self.answers)
        self.folder.cleanup()

    def receive(self):
        deadline = time.monotonic() + PATIENCE_S
        while b'\0' not in self.rest:
            if not select.select([self.answers], [], [], max(0, deadline - time.monotonic()))[0]:
                raise TimeoutError('the browser says nothing')
            if not (data := os.read(self.answers, 1 << 20)):
                raise EOFError('the browser has ended')
            self.rest += data
        line, _, self.rest = self.rest.partition(b'\0')
        message = json.loads(line)
        method, params = message.get('method', ''), message.get('params', {})
        self.events[method] += 1
        if method == 'Runtime.consoleAPICalled':
            self.said.append(' '.join(str(one.get('value')) for one in params['args']))
        elif method == 'Runtime.exceptionThrown':
            self.said.append(params['exceptionDetails'].get('exception', {}).get('description') or params['exceptionDetails']['text'])
        elif method == 'Log.entryAdded':
            self.said.append(params['entry']['text'])
        return message

    def send(self, method, **params):
        """The result of a command of the protocol."""
        self.number += 1
        number, message = self.number, {'id': self.number, 'method': method, 'params': params}
        os.write(self.requests, json.dumps(message | ({'sessionId': self.session} if self.session else {})).encode() + b'\0')
        while (answer := self.receive()).get('id') != number:
            pass
        if 'error' in answer:
            raise RuntimeError(f'{method}: {answer["error"]}')
        return answer['result']

    def open(self, url):
        """Loads a page."""
        before = self.events['Page.loadEventFired']
        self.send('Page.navigate', url=url)
        while self.events['Page.loadEventFired'] == before:
            self.receive()

    def value(self, code):
        """The value of a JavaScript expression in the page, or of its promise."""
        result = self.send('Runtime.evaluate', expression=code, awaitPromise=True, returnByValue=True, userGesture=True)
        if 'exceptionDetails' in result:
            raise RuntimeError(f'{code}: {result["exceptionDetails"].get("exception", {}).get("description")}')
        return result['result'].get('value')

    def until(self, code):
        """Waits until a JavaScript expression is true, or raises TimeoutError."""
        if not self.value(f'''new Promise(done => {{
            const end = performance.now() + {1000 * PATIENCE_S / 2};
            const look = () => ({code}) ? done(true) : performance.now() > end ? done(false) : setTimeout(look, 20);
            look();
        }})'''):
            raise TimeoutError(f'{code} did not become true; the page says: {self.value("document.body.innerText")[:2000]}')

    def type(self, text):
        self.send('Input.insertText', text=text)

    def press(self, key, modifiers=0):
        """Presses and releases a key of KEYS. `modifiers`: 8 is Shift."""
        code, text = KEYS[key]
        common = {'key': key, 'code': key, 'windowsVirtualKeyCode': code, 'modifiers': modifiers}
        self.send('Input.dispatchKeyEvent', type='keyDown' if text else 'rawKeyDown', **common, **({'text': text} if text else {}))
        self.send('Input.dispatchKeyEvent', type='keyUp', **common)

    def click(self, selector):
        self.value(f'document.querySelector({json.dumps(selector)}).click()')

    def look(self, width, height, scheme='light', touch=False):
        """The size of the window, and whether the user likes it dark."""
        self.send('Emulation.setDeviceMetricsOverride', width=width, height=height, deviceScaleFactor=1, mobile=touch)
        self.send('Emulation.setTouchEmulationEnabled', enabled=touch)
        self.send('Emulation.setEmulatedMedia', features=[{'name': 'prefers-color-scheme', 'value': scheme}])

    def picture(self, path):
        """Writes a PNG of what is seen."""
        pathlib.Path(path).write_bytes(base64.b64decode(self.send('Page.captureScreenshot', format='png')['data']))
