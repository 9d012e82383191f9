"""Where the program, the scripts and the models are: in a clone of the repository, or where `cmake --install` has put them."""
import os
import pathlib
import re
import sys

try:
    from . import installed  # written by `cmake --install`: where the programs are, relative to ROOT
except ImportError:
    installed = None

LAUNCH = pathlib.Path(__file__).resolve().parents[2]
ROOT = LAUNCH.parent  # of the clone, or PREFIX/share/yamata; both have launch/ and models/


def build_folder():
    return pathlib.Path(os.environ.get('YAMATA_BUILD', ROOT / 'build'))


def program(name='yamata'):
    """The path of a program of the build: yamata or emulated-switch. The environment variable YAMATA_BUILD names the folder of another."""
    if installed is None or 'YAMATA_BUILD' in os.environ:
        return build_folder() / name
    return (ROOT / (installed.PROGRAM if name == 'yamata' else installed.HELPERS) / name).resolve()


def kept_folder():
    """Where scripts keep what they have made for later runs: the build folder, or the user's cache folder."""
    if installed is None or 'YAMATA_BUILD' in os.environ:
        return build_folder()
    return pathlib.Path(os.environ.get('XDG_CACHE_HOME') or pathlib.Path.home() / '.cache') / 'yamata'


def named_program():
    """The program as an experiment names it if its file does not."""
    return 'build/yamata' if installed is None else str(program())


def with_own_files(value):
    """A value of a TOML file in which files that come with Yamata, such as models/tales-target-q8_0.gguf, are named where they are
    installed, if there is no such file below the current folder."""
    if isinstance(value, dict):
        return {key: with_own_files(part) for key, part in value.items()}
    if isinstance(value, list):
        return [with_own_files(part) for part in value]
    own = installed and isinstance(value, str) and re.fullmatch(r'(models|launch/experiments)/[\w.-]+', value)
    return str(ROOT / value) if own and not os.path.exists(value) else value


def command():
    """The name of the script that runs, as its user writes it."""
    name = os.path.basename(sys.argv[0])
    return f'launch/{name}' if installed is None else f'yamata-{name.removeprefix("yamata-")}'


def as_installed(text):
    """A text about the scripts, with the names that they have after an installation."""
    return re.sub(r'\blaunch/(?!experiments/|install-packages)([a-z-]+)(?![\w/.])', r'yamata-\1', text).replace('build/yamata', 'yamata')


def as_written(text):
    """A text about the scripts, with the names that they have here."""
    return text if installed is None else as_installed(text)
