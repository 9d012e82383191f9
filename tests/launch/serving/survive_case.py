"""Support for tests of lost machines: servers and jobs whose mpirun starts the engine's double, on hosts that all answer."""
import json
import os
import pathlib
import tempfile
import unittest

import scene

HOSTS = '127.0.0.1', '127.0.0.2', '127.0.0.3'  # each answers a probe
MPIRUN = '''#!/bin/sh
for word; do
  [ "$last" = --hostfile ] && hosts=$(paste -sd, "$word")
  last=$word
  [ "$found" ] && set -- "$@" "$word"
  [ "$word" = engine ] && { found=1; set --; }
done
ENGINE_HOSTS=$hosts exec "$YAMATA_BUILD/yamata" engine "$@"
'''


class Servers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(scene.build_folder(folder.name))
        self.starts = self.folder / 'starts'
        mpirun = self.folder / 'bin' / 'mpirun'
        mpirun.parent.mkdir()
        mpirun.write_text(MPIRUN)
        mpirun.chmod(0o755)
        (self.folder / 'hosts').write_text('\n'.join(['# three machines', *HOSTS]))

    def run_server(self, *words, hosts=True, **environment):
        words = (['--hostfile', str(self.folder / 'hosts')] if hosts else []) + list(words)
        server = scene.Running(self.folder, *words, ENGINE_STARTS=str(self.starts),
                               PATH=f'{self.folder}/bin:{os.environ["PATH"]}', **environment)
        self.addCleanup(lambda: server.process.poll() is None and server.end())
        return server

    def generations(self):
        return [line for line in self.recorded() if 'hosts' in line]

    def recorded(self):
        return [json.loads(line) for line in self.starts.read_text().splitlines()]
