"""The chat page: one file, whose script and style are allowed by their hashes and nothing else."""
import base64
import hashlib
import pathlib
import re

FILE = pathlib.Path(__file__).with_name('page.html')


def hashes(text, tag):
    """Of each element `tag` in the page, as Content-Security-Policy has them."""
    bodies = re.findall(rf'<{tag}(?:\s[^>]*)?>(.*?)</{tag}>', text, re.S)
    return ' '.join(f"'sha256-{base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()}'" for body in bodies) or "'none'"


class Page:
    def __init__(self, path=FILE):
        self.data = pathlib.Path(path).read_bytes()
        text = self.data.decode()
        self.policy = (f"default-src 'none'; connect-src 'self'; script-src {hashes(text, 'script')}; style-src {hashes(text, 'style')}; "
                       "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
                       "require-trusted-types-for 'script'; trusted-types 'none'")

    async def answer(self, request):
        await request.reply(200, self.data, 'text/html; charset=utf-8', [
            ('content-security-policy', self.policy), ('referrer-policy', 'no-referrer'), ('cache-control', 'no-cache')])
