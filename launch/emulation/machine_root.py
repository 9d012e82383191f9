"""The files of emulated machines: a bare Debian with ssh, and above it, for the person's machine, what the scripts of launch/ need. They
are made once, from Debian's packages, and kept."""
import shutil
import subprocess

from cluster import packages
from common import places

from .hosts import EmulationError

RELEASE = 'bookworm'
BARE = ['openssh-server', 'perl-base', 'sudo', 'ca-certificates', 'iproute2']
OF_THE_PERSON = ['python3', 'python3-uvicorn', 'python3-jinja2', 'apt-utils']
VERSION = '1'
MARK = 'complete'


def folder():
    return places.kept_folder() / 'machine-root'


def why_not():
    """The reason why the files cannot be made here, or None."""
    if (folder() / MARK).exists():
        return None
    if not shutil.which('mmdebstrap'):
        return "the command 'mmdebstrap' is missing; install it with: apt-get install mmdebstrap"
    return None


def run(*command, **more):
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True, text=True, **more)
    if done.returncode:
        raise EmulationError(f"'{' '.join(map(str, command[:4]))} ...' failed: {(done.stderr or done.stdout).strip()[-300:]}")
    return done.stdout


class Layers:
    """`bare`: the root of every machine. `person`: the files above it of the first one. `packages`: a folder that apt can read."""

    def __init__(self):
        self.bare, self.person, self.packages = (folder() / name for name in ('bare', 'person', 'packages'))


def layers(say=lambda text: None):
    """Makes them if need be. Raises EmulationError."""
    made, mark = Layers(), folder() / MARK
    if mark.exists() and mark.read_text() == VERSION:
        return made
    shutil.rmtree(folder(), ignore_errors=True)
    folder().mkdir(parents=True)
    say('making the files of a bare Debian machine (a minute)')
    run('mmdebstrap', '--variant=minbase', f'--include={",".join(BARE)}', RELEASE, made.bare)
    for path in (made.bare / 'etc' / 'ssh').glob('ssh_host_*'):
        path.unlink()
    say('adding what the scripts need on the first machine')
    collect(made, packages.NEEDED)
    install(made, OF_THE_PERSON)
    mark.write_text(VERSION)
    return made


def install(made, names):
    """Into the layer of the person's machine."""
    root, work = folder() / 'mounted', folder() / 'work'
    for path in root, work, made.person:
        path.mkdir()
    run('mount', '-t', 'overlay', 'overlay', '-o', f'lowerdir={made.bare},upperdir={made.person},workdir={work}', root)
    try:
        # the network's configuration of this machine
        shutil.copy('/etc/resolv.conf', root / 'etc' / 'resolv.conf')
        in_root(root, 'apt-get', 'update', '-qq')
        in_root(root, 'apt-get', 'install', '-y', '-qq', '--no-install-recommends', *names)
        in_root(root, 'apt-get', 'clean')
        know_only(made.packages, root)
    finally:
        run('umount', root)
    root.rmdir()
    shutil.rmtree(work)


def know_only(folder_of_packages, root):
    """Its apt then knows this folder instead of the internet."""
    (root / 'etc' / 'apt' / 'sources.list').write_text('')
    (root / 'etc' / 'apt' / 'sources.list.d' / 'here.list').write_text('deb [trusted=yes] copy:/var/packages ./\n')
    there = root / 'var' / 'packages'
    there.mkdir()
    run('mount', '--bind', folder_of_packages, there)
    try:
        in_root(root, 'apt-get', 'update', '-qq')
    finally:
        run('umount', there)


def in_root(root, *command):
    run('chroot', root, 'env', 'DEBIAN_FRONTEND=noninteractive', 'LC_ALL=C', *command)


def collect(made, names):
    """Packages that a bare machine lacks for these, as files in a folder from which apt can install."""
    made.packages.mkdir()
    (made.packages / 'partial').mkdir()
    run('apt-get', 'install', '-y', '-qq', '--no-install-recommends', '--download-only', *same_lists(made.bare), '-o',
        f'Dir::Cache::archives={made.packages}', *names)
    shutil.rmtree(made.packages / 'partial')
    (made.packages / 'lock').unlink(missing_ok=True)
    if not any(made.packages.glob('*.deb')):
        raise EmulationError('apt-get has downloaded no packages; run: apt-get update')
    index = []
    for path in sorted(made.packages.glob('*.deb')):
        index += [run('dpkg-deb', '-f', path).strip(), f'Filename: ./{path.name}', f'Size: {path.stat().st_size}',
                  f'SHA256: {run("sha256sum", path).split()[0]}', '']
    (made.packages / 'Packages').write_text('\n'.join(index))


def same_lists(root):
    """Words for apt: what is installed is what the files below `root` say; what there is, this machine's lists."""
    return ['-o', f'Dir::State::status={root}/var/lib/dpkg/status', '-o', 'Debug::NoLocking=true', '-o', 'APT::Sandbox::User=root']

