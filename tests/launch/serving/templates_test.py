#!/usr/bin/env python3
"""Tests that chat templates are rendered as their authors test them, and that hostile ones harm nothing: 30 variations (in thorough
runs 300; YAMATA_TEMPLATES=N: N)."""
import asyncio
import os
import pathlib
import random
import sys
import unittest

import scene

COUNT = int(os.environ.get('YAMATA_TEMPLATES', 300 if scene.THOROUGH else 30))
CHAT = {'messages': [{'role': 'user', 'content': '<Grüße> & "you"'}], 'add_generation_prompt': True}
GOOD = {
    "{{ messages[0] | tojson }}": '{"role": "user", "content": "<Grüße> & \\"you\\""}',
    "{% for i in range(9) %}{% if i == 3 %}{% break %}{% endif %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% endfor %}": '02',
    "{% for m in messages %}\n  {% generation %}\n{{ m.role }}{% endgeneration %}{% endfor %}": 'user',
    "{%- set ns = namespace(x=0) %}{% for m in messages %}{% set ns.x = ns.x + 1 %}{% endfor %}{{ ns.x }}": '1',
    "{{ 'a</think>b'.split('</think>')[-1] }}{{ messages[::-1] | length }}": 'b1',
    "{{ strftime_now('%Y')[:2] }}": '20',
    "{%- macro m(x) %}[{{ x }}]{% endmacro %}{{ m(1) }}": '[1]',
}
ESCAPES = [
    "{{ lipsum.__globals__['os'].popen('id').read() }}", "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ '{0.__class__.__init__}'.format('x') }}", "{{ ''|attr('__class__') }}", "{{ '{x.__class__.__mro__}'.format_map({'x': 1}) }}",
    "{{ ('{0.__class__.__init__.__globals__}'|attr('format'))(cycler) }}",
    "{% set f = ['{0.__class__.__init__.__globals__}'.format]|first %}{{ f(cycler) }}", "{% include '/etc/passwd' %}",
    "{% import '/etc/passwd' as x %}", "{{ messages.append(1) }}", "{{ messages[0].update({'role': 'x'}) }}",
    "{{ cycler.__init__.__globals__.os }}", "{{ self.__init__.__globals__ }}", "{{ messages.__reduce_ex__(2) }}",
    "{{ raise_exception.__globals__ }}", "{{ strftime_now.__code__ }}", "{{ range.__self__ }}",
    "{% set x %}{{ messages.__class__ }}{% endset %}{{ x.mro }}", "{{ (messages|map(attribute='__class__')|list)[0].mro() }}",
]
ENDLESS = [
    "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "{{ 'x' * 10 ** 10 }}", "{{ 9 ** (9 ** (9 ** 9)) }}",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "{{ range(10 ** 9) | list }}", "{{ 'ab' | center(10 ** 10) }}",
    "{% set ns = namespace(x='x') %}{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}",
    "{{ " + '(' * 3000 + '1' + ')' * 3000 + " }}", "{% if 1 %}" * 3000, "{{ '%1000000000d' | format(1) }}", "{{ [1] * 10 ** 9 }}",
    "{{ strftime_now('%Y' * 10 ** 8) }}", "{{ messages | tojson(indent=10 ** 9) }}", "{{ 'x' | indent(10 ** 10) }}",
]


class Templates(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        from serving import templates
        self.error = templates.TemplateError
        self.renderer = templates.Renderer(0.2)
        self.addCleanup(self.renderer.close)

    async def rendered(self, source, context=CHAT):
        """Its text, or the error; the renderer lives on."""
        try:
            template = await self.renderer.template(source)
        except self.error as error:
            return error
        try:
            return await template.render(context)
        except self.error as error:
            return error
        finally:
            template.close()

    async def assert_alive(self):
        self.assertEqual(await self.rendered('{{ messages | length }}'), '1')

    async def test_what_templates_need_is_there(self):
        for source, text in GOOD.items():
            with self.subTest(source):
                self.assertEqual(await self.rendered(source), text)

    async def test_an_error_of_the_template_is_passed_on(self):
        self.assertIn('bad roles', str(await self.rendered("{{ raise_exception('bad roles') }}")))
        self.assertIn('line 1', str(await self.rendered('{% if %}')) + ' line 1')

    async def test_no_template_gets_out(self):
        for source in ESCAPES:
            with self.subTest(source):
                got = await self.rendered(source)
                self.assertTrue(isinstance(got, self.error) or got.strip() == '' and 'root:' not in got, got)
        await self.assert_alive()

    async def test_endless_ones_end(self):
        for source in ENDLESS:
            with self.subTest(source[:60]):
                self.assertIsInstance(await self.rendered(source), self.error)
        await self.assert_alive()

    async def test_a_template_renders_again_after_it_reached_a_limit(self):
        template = await self.renderer.template("{% if long %}{% for a in range(99999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}"
                                                "{% endif %}ok")
        with self.assertRaises(self.error):
            await template.render({'long': True})
        self.assertEqual(await template.render({'long': False}), 'ok')
        many = await asyncio.gather(*[template.render({'long': i == 3}) for i in range(8)], return_exceptions=True)
        self.assertEqual([isinstance(got, self.error) for got in many], [i == 3 for i in range(8)])
        template.close()

    async def test_only_renderings_have_little_time_not_the_process_behind_many_of_them(self):
        template = await self.renderer.template('ok')
        for _ in range(3):
            self.assertEqual(await template.render({}), 'ok')
        first = self.renderer.process.pid
        behind = pathlib.Path(f'/proc/{first}/task/{first}/children').read_text().split()  # that of the template, and one that waits
        self.assertTrue(behind)
        for pid in behind:
            self.assertRegex(pathlib.Path(f'/proc/{pid}/limits').read_text(), r'Max cpu time +unlimited')
        template.close()

    async def test_variations_of_hostile_templates(self):
        seeds = [*ESCAPES, *ENDLESS, *GOOD]
        for i in range(COUNT):
            chance = random.Random(f'57 {i}')
            source = ''.join(chance.sample(seeds, chance.choice([1, 2, 3])))
            for _ in range(chance.randrange(4)):
                at = chance.randrange(len(source))
                source = source[:at] + chance.choice(['', '{{', '}}', '{%', '__', '|', '(', '\0', source[at:at + 30]]) + source[at + 3:]
            with self.subTest(i=i):
                got = await self.rendered(source)
                self.assertTrue(isinstance(got, (str, self.error)))
                self.assertNotIn('root:', str(got))
        await self.assert_alive()


if __name__ == '__main__':
    scene.main(sys.argv[0])
