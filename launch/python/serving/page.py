"""The chat page: the files of page/, joined into one, whose script and style are allowed by their hashes and nothing else."""
import base64
import hashlib
import pathlib

FOLDER = pathlib.Path(__file__).with_name('page')
SCRIPTS = ('elements', 'storage', 'markdown', 'server', 'conversation', 'answers', 'writing', 'settings', 'cluster', 'start')
STYLE_PLACE, SCRIPT_PLACE = '<style></style>', '<script type="module"></script>'


def read(name):
    return (FOLDER / name).read_text(encoding='utf-8')


def allowed(body):
    """As Content-Security-Policy has it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()}'"


class Page:
    """`text`: the page. `policy`: its Content-Security-Policy."""

    def __init__(self):
        style = read('style.css')
        script = '\n'.join(read(f'{name}.js') for name in SCRIPTS)  # a module: the files see one another's names, the window does not
        html = read('page.html')
        for place, body in (STYLE_PLACE, style), (SCRIPT_PLACE, script):
            before, _, behind = html.partition(place)
            html = before + place.replace('><', f'>{body}<') + behind
        self.text, self.data = html, html.encode()
        self.policy = (f"default-src 'none'; connect-src 'self'; script-src {allowed(script)}; style-src {allowed(style)}; "
                       "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
                       "require-trusted-types-for 'script'; trusted-types 'none'")

    async def answer(self, request):
        await request.reply(200, self.data, 'text/html; charset=utf-8', [
            ('content-security-policy', self.policy), ('referrer-policy', 'no-referrer'), ('cache-control', 'no-cache')])
