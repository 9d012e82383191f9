#!/usr/bin/env python3
"""Breaks each rule of launch/check-house once, in a small tree."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent


def version_of(program):
    return subprocess.run([program, '--version'], capture_output=True, text=True).stdout if shutil.which(program) else ''


class CheckHouse(unittest.TestCase):
    def complaints(self, files):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(['git', 'init', '-q', folder], check=True)
            for name, text in files.items():
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            done = subprocess.run([sys.executable, ROOT / 'launch' / 'check-house', folder], capture_output=True, text=True)
            self.assertEqual(done.returncode, 1 if done.stdout else 0, done.stderr)
            return done.stdout.splitlines()

    def assert_one(self, files, part):
        found = self.complaints(files)
        self.assertEqual(len(found), 1, found)
        self.assertIn(part, found[0])

    def test_tree_that_keeps_the_rules_is_left_alone(self):
        self.assertEqual(self.complaints({
            'mpi/decoding/a.cpp': '#include "mpi/pipeline/b.hpp"\n#include "node/c.hpp"\nvoid f() {\n  g();\n}\n',
            'launch/commands/run.cpp': '#include "launch/program/job/job.hpp"\n', 'mpi/transport/m.cpp': 'void f() { MPI_Send(1); }\n',
            'tests/cuda.md': 'cudaMalloc\n'}), [])

    def test_dependencies_between_folders_and_subfolders_point_one_way(self):
        self.assert_one({'node/a.cpp': '#include "src/b.hpp"\n'}, 'node/a.cpp:1: node includes src')
        self.assert_one({'mpi/pipeline/a.cpp': '\n#include "mpi/decoding/b.hpp"\n'},
                        'mpi/pipeline/a.cpp:2: mpi/pipeline includes mpi/decoding')
        self.assert_one({'launch/program/output/a.cpp': '#include "launch/program/job/job.hpp"\n'}, 'from launch/program/job to launch/program/output')
        self.assert_one({'src/model/a.cpp': '#include "src/speculation/b.hpp"\n'}, 'src/model includes src/speculation')
        self.assert_one({'node/cuda/kernels/a.hpp': '#include "node/cuda/emulation/b.hpp"\n'}, 'from node/cuda/emulation to node/cuda/kernels')

    def test_mpi_and_cuda_stay_where_they_belong(self):
        self.assert_one({'mpi/cluster/a.cpp': 'int x = MPI_Send(1);\n'}, 'MPI is called outside mpi/transport')
        self.assert_one({'node/cpu/a.cpp': 'cudaMalloc();\n'}, 'CUDA is called outside node/cuda')

    def test_views_are_left_to_newer_compilers(self):
        self.assert_one({'src/a.cpp': 'auto x = std::views::keys(y);\n'}, 'src/a.cpp:1: clang 14')

    def test_long_files_and_functions_are_named(self):
        self.assert_one({'src/a.cpp': 'int x;\n' * 401}, '401 lines, more than 400')
        body = '  call();\n' * 60
        self.assert_one({'src/a.cpp': f'int y;\nvoid f(int a,\n       int b) {{\n{body}}}\n'}, 'src/a.cpp:2: a function of 63 lines')
        self.assert_one({'src/a.hpp': f'struct S {{\n  void f() const {{\n{body}  }}\n}};\n'}, 'src/a.hpp:2: a function of 62 lines')
        self.assert_one({'launch/a.py': 'def f():\n' + '    call()\n' * 61}, 'launch/a.py:1: a function of 62 lines')
        self.assertEqual(self.complaints({'node/cpu/kernels/k.hpp': f'void f() {{\n{body}}}\n'}), [])
        for name in 'a.html', 'a.css', 'a.js':
            self.assert_one({name: 'x\n' * 401}, f'{name}:0: 401 lines, more than 400')
        self.assert_one({'a.js': f'async function f(a) {{\n{body}}}\n'}, 'a.js:1: a function of 62 lines')

    def test_long_lines_are_named_but_not_those_of_tables_and_code_in_markdown(self):
        long = 'word ' * 28 + 'x'
        for name in ('src/a.cpp', 'launch/a.py', 'launch/run', 'tests/a.sh', 'a.js', 'a.css', 'launch/a.toml', 'a.cmake', 'src/CMakeLists.txt', 'docs/a.md'):
            with self.subTest(name):
                self.assert_one({name: f'# {long[3:]}\n# {long}\n'}, f'{name}:2: a line of 143 columns, more than 140')
        self.assertEqual(self.complaints({'docs/a.md': f'| {long} |\n```\n{long}\n```\n', 'tests/a.csv': f'{long}\n'}), [])
        self.assert_one({'docs/a.md': f'```\n{long}\n```\n{long}\n'}, 'docs/a.md:4: a line of 141')
        self.assertEqual(self.complaints({'tests/a.hpp': f'// clang-format off\n// {long}\n// clang-format on\n'}), [])
        self.assert_one({'tests/a.hpp': f'// clang-format off\n// clang-format on\n// {long}\n'}, 'tests/a.hpp:3')

    def test_cpp_is_formatted_where_the_tree_says_how(self):
        style, skewed = 'BasedOnStyle: Google\nColumnLimit: 140\n', {'src/a.cpp': 'int x;\nint   y;\nint   z;\n', 'a.py': 'x  = 1\n'}
        self.assertEqual(self.complaints(skewed), [])
        if not any(' version 14.' in version_of(name) for name in ('clang-format-14', 'clang-format')):
            self.skipTest('no clang-format 14')
        self.assert_one({'.clang-format': style, **skewed}, 'src/a.cpp:2: not formatted; run clang-format -i src/a.cpp')
        self.assertEqual(self.complaints({'.clang-format': style, 'src/a.cpp': 'int x;\n'}), [])


if __name__ == '__main__':
    unittest.main()
