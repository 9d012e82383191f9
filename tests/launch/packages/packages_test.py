#!/usr/bin/env python3
"""Tests the Debian package in a bare Debian system that mmdebstrap downloads: it installs with its dependencies, its texts are those of
the build, man pages and completions have what --help says, and removing it leaves no trace. Then the container image, with that system
as its base, in podman. packages_test.py BUILD_FOLDER
Without root, mmdebstrap or a network, the test is skipped. BARE_SYSTEM=FILE: a tar archive that mmdebstrap has made before."""
import gzip
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(sys.argv[1])
# what apt, dpkg and packages that it depends on keep or change
KEPT = {'var/lib/dpkg', 'var/lib/apt', 'var/cache', 'var/log', 'etc/ld.so.cache', 'etc/gshadow-', 'dev', 'proc', 'run', 'sys', 'tmp'}
INSIDE = '''set -e
mount --bind "$0" "$0"
cd "$0"
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
mount -t tmpfs tmpfs tmp
exec chroot . /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \\
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "$@"
'''
STORAGE = '''[storage]
driver = "overlay"
graphroot = "{folder}"
runroot = "{folder}-run"
'''
COMPLETE = 'compopt() { :; }; source "$1"; COMP_WORDS=("${@:2}"); COMP_CWORD=$(($# - 2)); "_${2//-/_}"; printf "%s\\n" "${COMPREPLY[@]}"'
MODEL = '/usr/share/yamata/models/tales-target-q8_0.gguf'
DRAFT = '/usr/share/yamata/models/tales-draft-q8_0.gguf'
TEXT = 'run', '-m', MODEL, '-p', 'Once upon a time', '-n', '20'
RANKS = 'mpirun', '--oversubscribe', '--bind-to', 'none', '-np', '3', 'yamata'


def skip(reason):
    print(f'skipped: {reason}')
    sys.exit(77)


def output(*command, **more):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False, **more)
    if done.returncode:
        raise AssertionError(f'{" ".join(map(str, command))} ended with {done.returncode}: {done.stderr[-3000:]}{done.stdout[-1000:]}')
    return done.stdout


def make_bare_system(archive):
    """Debian of the release of this machine, with nothing but what apt needs."""
    print('downloading a bare Debian system with mmdebstrap', file=sys.stderr)
    suite = re.search('^VERSION_CODENAME=(.*)$', pathlib.Path('/etc/os-release').read_text(), re.M)[1]
    made = subprocess.run(['mmdebstrap', '--quiet', '--variant=apt', suite, archive], capture_output=True, text=True, check=False)
    if made.returncode:
        skip(f'mmdebstrap made no Debian system here: {made.stderr[-500:]}')


def setUpModule():
    """The package of the build, and the archive of the bare system."""
    global FOLDER, PACKAGE, ARCHIVE, EXPECTED
    FOLDER = pathlib.Path(unittest.enterModuleContext(tempfile.TemporaryDirectory())).resolve()
    output('cpack', '--config', BUILD / 'CPackConfig.cmake', '-G', 'DEB', '-B', FOLDER / 'packages')
    PACKAGE, = (FOLDER / 'packages').glob('*.deb')
    ARCHIVE = pathlib.Path(os.environ.get('BARE_SYSTEM') or FOLDER / 'bare.tar')
    if not ARCHIVE.exists():
        make_bare_system(ARCHIVE)
    EXPECTED = output(BUILD / 'yamata', *[ROOT / 'models' / os.path.basename(word) if word == MODEL else word for word in TEXT])


class Package(unittest.TestCase):
    """Cases run in the order of their names: installing comes first, and removing last."""

    @classmethod
    def setUpClass(cls):
        cls.root = FOLDER / 'root'
        cls.root.mkdir()
        output('tar', '-x', '-C', cls.root, '-f', ARCHIVE)
        cls.before = cls.tree()
        shutil.copy(PACKAGE, cls.root / 'root')

    @classmethod
    def inside(cls, *command):
        """What a command in the bare system prints. Its mounts end with it."""
        return output('unshare', '--mount', '--pid', '--fork', '--kill-child', 'sh', '-c', INSIDE, cls.root, *command)

    @classmethod
    def tree(cls):
        """Every file but KEPT, as (path, kind and mode, owner, link)."""
        found = set()
        for folder, names, files in os.walk(cls.root):
            below = pathlib.Path(folder).relative_to(cls.root)
            names[:] = [name for name in names if str(below / name) not in KEPT]
            for name in [*names, *files]:
                path = pathlib.Path(folder, name)
                state = path.lstat()
                if str(below / name) in KEPT:
                    continue
                found.add((str(below / name), oct(state.st_mode), state.st_uid, os.readlink(path) if path.is_symlink() else ''))
        return found

    def help_of(self, *words):
        return self.inside(*words, '--help')

    def test_1_installs_with_its_dependencies(self):
        self.inside('apt-get', 'update')
        self.inside('apt-get', 'install', '-y', '--no-install-recommends', f'/root/{PACKAGE.name}')
        self.assertRegex(self.inside('yamata', '--version'), r'^yamata [\d.]+ \(commit [\w-]+\)\n$')

    def test_2_texts_are_those_of_the_build(self):
        self.assertGreater(len(EXPECTED.split()), 10)
        self.assertEqual(self.inside('yamata', *TEXT), EXPECTED)
        self.assertEqual(self.inside(*RANKS, *TEXT), EXPECTED)
        self.assertEqual(self.inside(*RANKS, *TEXT, '-md', DRAFT), EXPECTED)

    def test_3_man_pages_and_completions_have_what_help_says(self):
        share = self.root / 'usr/share'
        pages = {path.name[:-5]: gzip.decompress(path.read_bytes()).decode().replace('\\-', '-') for path in share.glob('man/man1/yamata*')}
        scripts = {path.name for path in (self.root / 'usr/bin').glob('yamata-*')}
        commands = re.findall(r'^  ([a-z]+) ', self.help_of('yamata').partition('\ncommands\n')[2], re.M)
        self.assertEqual(set(pages), {'yamata', *scripts, *(f'yamata-{command}' for command in commands)})
        for name in sorted({*scripts, *(f'yamata {command}' for command in commands)}):
            words = name.split()
            flags = set(re.findall(r'^ {2,6}(?:-\w, )?(--[a-z-]+)', self.help_of(*words), re.M)) - {'--help'}
            completed = set(self.inside('bash', '-c', COMPLETE, 'bash', f'/usr/share/bash-completion/completions/{words[0]}', *words, '--')
                            .split())
            with self.subTest(name):
                self.assertTrue(flags or name not in {'yamata run', 'yamata-serve'})
                self.assertEqual(flags - completed, set())
                self.assertEqual({flag for flag in flags if not re.search(rf'{flag}\b', pages[name.replace(' ', '-')])}, set())
        self.assertIn(f'run -m {MODEL}', pages['yamata-emulate'])
        for folder, name in ('zsh/vendor-completions', '_{}'), ('fish/vendor_completions.d', '{}.fish'):
            self.assertEqual({path.name for path in (share / folder).iterdir()}, {name.format(program) for program in {'yamata', *scripts}})

    def test_4_removing_it_leaves_no_trace(self):
        self.inside('apt-get', 'purge', '-y', '--autoremove', 'yamata')
        (self.root / 'root' / PACKAGE.name).unlink()
        shutil.rmtree(self.root / 'root/.cache', ignore_errors=True)  # measurements, which belong to the user
        self.assertEqual(self.tree() ^ self.before, set())


@unittest.skipUnless(shutil.which('podman'), 'there is no podman; apt-get install podman')
class Container(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        (FOLDER / 'storage.conf').write_text(STORAGE.format(folder=FOLDER / 'images'))
        cls.environment = os.environ | {'CONTAINERS_STORAGE_CONF': str(FOLDER / 'storage.conf'), 'BUILDAH_ISOLATION': 'chroot',
                                        'BASE': 'localhost/bare', 'YAMATA_BUILD': str(FOLDER)}
        output('podman', 'import', ARCHIVE, 'localhost/bare', env=cls.environment)
        output(ROOT / 'launch/package', 'container', env=cls.environment)

    def in_container(self, *command):
        # An own view of cgroups, and low limits: also on machines with cgroups of both versions, or whose limits podman may not raise.
        view = 'mount -t tmpfs none /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup; exec "$@"'
        limits = '--ulimit', 'nofile=1024:1024', '--ulimit', 'nproc=1024:1024', '--cgroups', 'disabled'
        return output('unshare', '--mount', 'sh', '-c', view, 'sh', 'podman', 'run', '--rm', '--network', 'host', '--ipc', 'host', *limits,
                      'yamata', *command, env=self.environment)

    def test_texts_are_those_of_the_build(self):
        self.assertEqual(self.in_container('yamata', *TEXT), EXPECTED)
        self.assertEqual(self.in_container(*RANKS, *TEXT, '-md', DRAFT), EXPECTED)

    def test_a_user_without_rights_runs_it(self):
        self.assertEqual(self.in_container('id', '-un'), 'yamata\n')

    def test_scripts_for_servers_are_complete(self):
        self.in_container('python3', '-c', 'import uvicorn, jinja2')


if __name__ == '__main__':
    for tool in 'cpack', 'dpkg-shlibdeps', 'file', 'mmdebstrap':
        if not shutil.which(tool):
            skip(f'there is no {tool}; launch/install-packages --packages installs it')
    if os.geteuid() != 0:
        skip('only root can start programs in another Debian system')
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
