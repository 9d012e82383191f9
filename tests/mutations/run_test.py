"""The script that tries mutations, on a project of a few lines: found, missed and stale mutations, and a run that was killed."""
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent

CMAKE = '''cmake_minimum_required(VERSION 3.22)
project(scene NONE)
enable_testing()
foreach(test sum product slow)
  add_test(NAME ${test}_test COMMAND sh ${CMAKE_SOURCE_DIR}/${test}_test.sh)
endforeach()
add_test(NAME house_rules COMMAND grep -q two ${CMAKE_SOURCE_DIR}/code.sh)
set_tests_properties(sum_test product_test PROPERTIES LABELS numbers)
set_tests_properties(slow_test PROPERTIES LABELS "others;thorough")
add_custom_target(thorough_tests)
'''
CODE = '''sum() { echo $(($1 + $2)); }
product() { echo $(($1 * $2)); }
unused() { echo $(($1 - $2)); }
longest() { echo ${YAMATA_THOROUGH:-0}; }
# one two
'''
TEST = 'cd "$(dirname "$0")"\n. ./code.sh\n'
TESTS = {'sum': '[ $(sum 2 3) = 5 ] && { [ ! -e wait ] || sleep 600; }', 'product': '[ $(product 2 3) = 6 ] && [ $(sum 1 0) = 1 ]',
         'slow': '[ $(longest) != 1 ] && exit 1; echo ran >>"../slow"; [ $(product 1 1) = 1 ]'}
ENTRY = '''[[mutation]]
name = "{}"
file = "code.sh"
old = {}
new = {}
tests = ["{}"]
why = "a fault"
'''


class Scene:
    """A project with the script in it."""

    def __init__(self, folder):
        self.root = pathlib.Path(folder)
        (self.root / 'tests/mutations').mkdir(parents=True)
        shutil.copy(HERE / 'run', self.root / 'tests/mutations/run')
        (self.root / '.gitignore').write_text('/build*/\n')
        (self.root / 'CMakeLists.txt').write_text(CMAKE)
        (self.root / 'code.sh').write_text(CODE)
        for name, text in TESTS.items():
            (self.root / f'{name}_test.sh').write_text(TEST + text + '\n')
        subprocess.run(['git', 'init', '-q', self.root], check=True)

    def mutations(self, *entries):
        (self.root / 'tests/mutations/numbers.toml').write_text('group = "numbers"\n' + ''.join(ENTRY.format(*entry) for entry in entries))

    def command(self, *arguments):
        return [sys.executable, self.root / 'tests/mutations/run', *arguments]

    def run(self, *arguments):
        """The exit code, and the lines of both outputs."""
        done = subprocess.run(self.command(*arguments), capture_output=True, text=True)
        return done.returncode, (done.stdout + done.stderr).splitlines()

    def table(self):
        return [line.split('\t') for line in (self.root / 'build-mutations/table.tsv').read_text().splitlines()[1:]]

    def tree(self):
        return (self.root / 'build-mutations/table.tsv').read_text().splitlines()[0]

    def verdicts(self):
        return {row[0]: row[2:5] for row in self.table() if not row[0].startswith('unchanged ')}


SUM = 'sum-subtracts', '"$1 + $2"', '"$1 - $2"', 'sum_test'
PRODUCT = 'product-adds', '"$1 * $2"', '"$1 + $2"', 'sum_test'
UNUSED = 'unused-adds', '"$1 - $2"', '"$1 + $2"', 'sum_test'
GONE = 'gone', '"$1 / $2"', '"$1 - $2"', 'sum_test'
TWICE = 'twice', '"echo"', '"true"', 'sum_test'


def expect(found, expected, what):
    if found != expected:
        raise SystemExit(f'{what}: {found!r}, not {expected!r}')


def found_and_missed(scene):
    scene.mutations(SUM, PRODUCT)
    code, lines = scene.run()
    expect(code, 0, f'exit code, {lines}')
    expect(scene.verdicts(), {'sum-subtracts': ['found', 'everyday', 'sum_test'],
                              'product-adds': ['found', 'everyday', 'product_test, not named']}, 'all are found')
    expect((scene.root / 'code.sh').read_text(), CODE, 'the tree')
    expect((scene.root / 'build-mutations/source/code.sh').read_text(), CODE, 'the copy after it')
    scene.mutations(SUM, UNUSED)
    before = scene.table()
    code, lines = scene.run()
    expect((code, lines[-1]), (1, '1 of 2 found; not: unused-adds'), 'one is missed')
    expect(scene.verdicts()['unused-adds'][0], 'missed', 'verdict')
    expect(scene.table()[:len(before)], before, 'what was known is not tried again')
    expect((scene.root / 'build-mutations/slow').read_text(), 'ran\n', 'all tests run for what the everyday suite misses')
    code, lines = scene.run('--only', 'sum-subtracts')
    expect((code, lines[-1], len(scene.table())), (0, '1 of 1 found', len(before) + 2), '--only tries again')


def stale(scene):
    scene.mutations(SUM, GONE, TWICE)
    code, lines = scene.run('--list')
    expect((code, [': its old text' in line for line in lines]), (1, [False, True, True]), '--list')
    code, lines = scene.run()
    expect((code, lines[-1]), (1, '1 of 3 found; not: gone, twice'), 'old texts that do not fit')
    scene.mutations(SUM, SUM)
    code, lines = scene.run()
    expect((code, len(lines)), (2, 1), 'two of one name')


def red_without_a_mutation(scene):
    scene.mutations((*SUM[:3], 'absent_test'))
    code, lines = scene.run()
    expect((code, 'ctest has no such test' in lines[-1]), (2, True), lines)
    scene.mutations(SUM)
    (scene.root / 'sum_test.sh').write_text('exit 1\n')
    code, lines = scene.run()
    expect((code, 'fails without a mutation' in lines[-1]), (2, True), lines)


def killed(scene):
    """Killed in its second mutation, whose test waits; the next run has the first result, and a copy without the mutation."""
    scene.mutations(SUM, ('waits', '"# one two"', '"touch wait"', 'sum_test'), PRODUCT)
    copy = scene.root / 'build-mutations/source'
    run = subprocess.Popen(scene.command(), stdout=subprocess.DEVNULL)
    while not (copy / 'wait').exists():
        if run.poll() is not None:
            raise SystemExit('the mutation that waits has ended')
        time.sleep(0.02)
    run.send_signal(signal.SIGTERM)
    expect(run.wait(), 130, 'exit code of a run that is ended')
    expect(list(scene.verdicts()), ['sum-subtracts'], 'results before it')
    (copy / 'code.sh').write_text('left by a run that was killed\n')
    before = scene.table()
    scene.mutations(SUM, PRODUCT)
    code, lines = scene.run()
    expect((code, lines[-1]), (0, '2 of 2 found'), 'the next run')
    expect(scene.table()[:len(before)], before, 'the result of the ended run stays')
    tree = scene.tree()
    (scene.root / 'code.sh').write_text(CODE + '# changed\n')
    code, lines = scene.run()
    expect((code, len(scene.table()), scene.tree() == tree), (0, 3, False), 'a changed tree is tried anew')


for scene_of in found_and_missed, stale, red_without_a_mutation, killed:
    with tempfile.TemporaryDirectory() as scene_folder:
        scene_of(Scene(scene_folder))
        print('ok', scene_of.__name__)
