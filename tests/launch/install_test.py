#!/usr/bin/env python3
"""Tests `cmake --install`: what is installed runs from there, without the clone's folders; man pages and completions have what --help
says. install_test.py CMAKE BUILD_FOLDER VERSION"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CMAKE, BUILD, VERSION = sys.argv[1:4]
EXPERIMENT = '''tokens = 4
repeats = 1
[models.tales]
target = "models/tales-target-q8_0.gguf"
[clusters.local]
ranks = 1
[strategies]
iterative = ["--strategy", "iterative"]
[prompts.king]
text = "Once upon a time"
'''
COMPLETE = 'compopt() { :; }; source "$1"; COMP_WORDS=("${@:2}"); COMP_CWORD=$(($# - 2)); "_${2//-/_}"; printf "%s\\n" "${COMPREPLY[@]}"'


def output(*command, code=0, **more):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False, **more)
    if done.returncode != code:
        raise AssertionError(f'{command} ended with {done.returncode}, not {code}: {done.stderr}')
    return done.stdout


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.prefix = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()), 'prefix').resolve()
        output(CMAKE, '--install', BUILD, '--prefix', cls.prefix)
        cls.bin, cls.data, cls.share = cls.prefix / 'bin', cls.prefix / 'share/yamata', cls.prefix / 'share'
        cls.commands = re.findall(r'^  ([a-z]+) ', output(cls.bin / 'yamata', '--help').partition('\ncommands\n')[2], re.M)
        cls.scripts = sorted(path.name for path in cls.bin.iterdir() if path.name != 'yamata')

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.environment = {key: value for key, value in os.environ.items() if key != 'YAMATA_BUILD'} | {
            'XDG_CACHE_HOME': str(self.folder / 'cache')}

    def run_here(self, name, *arguments):
        """Runs what is installed in a folder where there is nothing else."""
        return output(self.bin / name, *arguments, cwd=self.folder, env=self.environment)

    def test_the_program_generates_with_an_installed_model(self):
        text = self.run_here('yamata', 'run', '-m', self.data / 'models/tales-target-q8_0.gguf', '-p', 'Once', '-n', '8', '--strategy',
                             'iterative')
        self.assertGreater(len(text.split()), 3)

    def test_the_version_is_that_of_the_build(self):
        commit = '(unknown|[0-9a-f]{10,}(-dirty)?)'
        self.assertRegex(self.run_here('yamata', '--version'), rf'^yamata {re.escape(VERSION)} \(commit {commit}\)\n$')
        self.assertIn(f'\n## {VERSION}\n', (ROOT / 'CHANGELOG.md').read_text())

    def test_each_script_explains_itself_by_its_installed_name(self):
        self.assertGreater(len(self.scripts), 8)
        for script in self.scripts:
            text = self.run_here(script, '--help')
            self.assertTrue(text, script)
            if 'usage:' in text:
                self.assertIn(f'usage: {script} ', text)
                self.assertNotRegex(text, r'launch/(?!experiments|install-packages)')

    def test_an_experiment_finds_the_program_and_the_models(self):
        (self.folder / 'own.toml').write_text(EXPERIMENT)
        self.run_here('yamata-experiment', 'own.toml', '--out', 'results')
        self.assertIn(f'{VERSION},', (self.folder / 'results/results.csv').read_text())

    def test_modules_find_the_programs(self):
        code = 'import sys; sys.path.insert(0, sys.argv[1]); from common import places; print(places.program("emulated-switch"))'
        found = output(sys.executable, '-c', code, self.data / 'launch/python', env=self.environment).strip()
        self.assertEqual(pathlib.Path(found), self.prefix / 'libexec/yamata/emulated-switch')
        self.assertTrue(os.access(found, os.X_OK))

    def test_the_chat_page_is_complete(self):
        code = 'import sys; sys.path.insert(0, sys.argv[1]); from serving import page; print(len(page.Page().text))'
        self.assertGreater(int(output(sys.executable, '-c', code, self.data / 'launch/python', env=self.environment)), 30000)

    def test_what_machines_of_a_cluster_run_is_there(self):
        own = {path.name for path in (ROOT / 'launch/python/cluster').iterdir() if path.suffix in ('.sh', '.pl')}
        self.assertEqual({path.name for path in (self.data / 'launch/python/cluster').iterdir()} & own, own)

    def test_each_command_and_script_has_a_man_page(self):
        pages = {path.name for path in (self.share / 'man/man1').iterdir()}
        commands = {f'yamata-{command}' for command in self.commands}
        self.assertEqual(pages, {f'{name}.1' for name in ('yamata', *commands, *self.scripts)})
        for name in pages:
            text = (self.share / 'man/man1' / name).read_text()
            self.assertRegex(text, rf'\A\.TH "{name[:-2].upper()}" "1" "" "yamata {re.escape(VERSION)}"')
            self.assertEqual(re.findall(r'^\.SH (\w+)', text, re.M)[:3], ['NAME', 'SYNOPSIS', 'DESCRIPTION'])
            self.assertNotIn('launch/yamata', text)
        example = (self.share / 'man/man1/yamata-emulate.1').read_text().replace('\\-', '-')
        self.assertIn(f'run -m {self.data}/models/tales-target-q8_0.gguf', example)

    @unittest.skipUnless(shutil.which('man'), 'no man here')
    def test_man_shows_flags_as_help_does(self):
        wide = self.environment | {'MANWIDTH': '1000', 'LC_ALL': 'C.UTF-8', 'MAN_KEEP_FORMATTING': ''}
        for command in self.commands:
            page = output('man', '-l', self.share / f'man/man1/yamata-{command}.1', env=wide)
            for flag in re.findall(r'^  (?:-\w, |    )(--[a-z-]+)', self.run_here('yamata', command, '--help'), re.M):
                self.assertRegex(page, rf'\n +(-\w+, )*{flag}[ \n]')

    def complete(self, *words):
        file = self.share / 'bash-completion/completions' / words[0]
        return output('bash', '-c', COMPLETE, 'bash', file, *words, cwd=self.folder).split()

    def test_bash_completes_commands_flags_and_files(self):
        (self.folder / 'a-model.gguf').touch()
        self.assertEqual(self.complete('yamata', 'sim'), ['simulate'])
        self.assertEqual(self.complete('yamata', 'run', '--mod'), ['--model', '--model-draft'])
        self.assertEqual(self.complete('yamata', 'tokenize', '--mod'), ['--model'])
        self.assertEqual(self.complete('yamata', 'run', '-m', 'a-'), ['a-model.gguf'])
        self.assertEqual(self.complete('yamata', 'run', '-n', ''), [])
        self.assertEqual(self.complete('yamata-emulate', '--ra'), ['--rate'])

    def test_completions_parse(self):
        for shell, folder in ('bash', 'bash-completion/completions'), ('zsh', 'zsh/site-functions'), ('fish', 'fish/vendor_completions.d'):
            files = list((self.share / folder).iterdir())
            self.assertEqual(len(files), 1 + len(self.scripts))
            for file in files if shutil.which(shell) else ():
                output(shell, '-n', file)


class Version(unittest.TestCase):
    """launch/program/output/version.cmake, in a repository of its own."""

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.file = self.folder / 'version.cpp'
        self.sources = self.folder / 'sources'
        self.sources.mkdir()

    def git(self, *words):
        identity = ['-c', 'user.name=test', '-c', 'user.email=test@example.org', '-c', 'commit.gpgsign=false']
        return output('git', '-C', self.sources, *identity, *words).strip()

    def written(self, version='1.2.3', sources=None, **environment):
        """What the program would say, and whether the file was written."""
        os.utime(self.file, (0, 0)) if self.file.exists() else None
        output(CMAKE, f'-DVERSION={version}', f'-DSOURCE={sources or self.sources}', f'-DOUT={self.file}', '-P',
               ROOT / 'launch/program/output/version.cmake', env=os.environ | {'GIT_CEILING_DIRECTORIES': str(self.folder)} | environment)
        return re.findall(r'return "(.*)";', self.file.read_text()), os.stat(self.file).st_mtime > 0

    def test_the_file_names_the_commit_and_is_only_written_if_it_changes(self):
        self.assertEqual(self.written(), (['1.2.3', 'unknown'], True))
        self.assertEqual(self.written(), (['1.2.3', 'unknown'], False))
        self.git('init', '-q')
        (self.sources / 'file').write_text('a')
        self.git('add', '.')
        self.git('commit', '-qm', 'one')
        commit = self.git('rev-parse', '--short=10', 'HEAD')
        self.assertEqual(self.written(), (['1.2.3', commit], True))
        self.assertEqual(self.written(), (['1.2.3', commit], False))
        self.assertEqual(self.written('1.2.4'), (['1.2.4', commit], True))
        (self.sources / 'file').write_text('b')
        self.assertEqual(self.written('1.2.4'), (['1.2.4', f'{commit}-dirty'], True))

    def test_sources_without_a_repository_take_the_commit_from_the_environment(self):
        self.assertEqual(self.written(YAMATA_COMMIT='abc')[0], ['1.2.3', 'abc'])

    def test_sources_in_another_repository_have_no_commit(self):
        self.git('init', '-q')
        self.git('commit', '-qm', 'one', '--allow-empty')
        (self.sources / 'below').mkdir()
        self.assertEqual(self.written(sources=self.sources / 'below')[0], ['1.2.3', 'unknown'])


if __name__ == '__main__':
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
