"""The systems of the papers on a machine with a GPU: the speed of each on the same models, and whether its text is the CPU's."""
import json
import pathlib
import statistics
import zlib

from . import cuda
from .steps import Steps

ROOT = pathlib.Path(__file__).resolve().parents[3]
MODELS = ROOT / 'models'
LONG_TALES = ROOT / 'launch/experiments/long-tales.jsonl'  # of 256 tokens, Ghidorah's context
ROUNDS = 3
TOKENS = 128
# A shape of flags of launch/inflate for target and heads, the draft's, and how many layers are on the GPU where not all are.
SHAPES = {'1.1B': (['--shape', '1.1b'], ['--shape', '70m'], 11),
          '7B, 8 layers': (['--dim', '4096', '--layers', '8', '--heads', '64', '--kv-heads', '32', '--ffn', '11008'],
                           ['--shape', '0.3b'], 4)}
# Of the demonstration pair as it is, for the emulated device.
TINY = {'tiny': ([], [], 2)}
NAME = 'gpu-papers'
HEADER = '| of | system | tokens/s | / sequential | / cpu | tokens/run | verify s | draft s | transfer s | GPU MiB |'


class Papers(Steps):
    """Every system once, then again, up to ROUNDS; what an earlier report has is not measured again."""

    def __init__(self, options, check, scratch):
        """In what is left of the time of `check`, which has built the program."""
        super().__init__(NAME, ROOT, {}, (), options.minutes)
        self.began, self.end, self.rows = check.began, check.end, check.rows
        self.device, self.program, self.scratch = options.device, check.program, pathlib.Path(scratch)
        self.tokens, self.rounds = (12, 1) if options.emulated else (TOKENS, ROUNDS)
        tale = json.loads(LONG_TALES.read_text().splitlines()[0])['prompt']
        self.prompt = 'Once upon a time there was' if options.emulated else tale
        self.shapes = TINY if options.emulated else SHAPES
        self.without_tree = set()
        # With memory of its own, so that layers can be copied.
        self.emulated = {'YAMATA_EMULATED_DEVICE': 'discrete'} if options.emulated else {}

    def take_up(self, out, facts):
        """The figures of an earlier report in that folder, if it was made by the same program on the same GPU."""
        earlier = pathlib.Path(out) / f'{self.name}.json'
        if earlier.exists() and earlier.stat().st_size:
            report = json.loads(earlier.read_text())
            if all(report.get(key) == value for key, value in facts.items()):
                self.figures = report['figures']
                self.tell(f'{earlier} is continued')

    def measure(self):
        for shape, (target, draft, layers) in self.shapes.items():
            rows = [self.row(shape, system) for system in self.systems(None, layers)]
            if all(len(row['tokens_per_s']) >= self.rounds for row in rows) or (files := self.files(shape, target, draft)) is None:
                continue
            for turn in range(self.rounds):
                for system, flags in self.systems(files, layers).items():
                    if len(self.row(shape, system)['tokens_per_s']) <= turn and self.has_trees(shape, files, flags):
                        self.run_once(shape, system, flags)
            self.remove(files)

    def systems(self, files, layers):
        """Names, and flags with the models `files` (None: names alone). `layers`: on the GPU, of `dovetail -ngl`."""
        f = files or dict.fromkeys(('target', 'medusa', 'dgf', 'draft', 'rates', 'tree'), '')
        device, both = self.device, f'cpu+{self.device}'
        medusa, dgf, small = ['--heads', f['medusa']], ['--heads', f['dgf'], '--draft-units', device], ['-md', f['draft']]
        flags = {'cpu': ['sequential', '--units', 'cpu'],
                 'sequential': ['sequential', '--units', device],
                 'medusa': ['medusa', '--units', device, *medusa, '--tree', f['rates']],
                 'ghidorah': ['ghidorah', '--units', both, *medusa, '--tree', f['tree']],
                 'dovetail': ['dovetail', '--units', 'cpu', *dgf],
                 f'dovetail -ngl {layers}': ['dovetail', '--units', both, '-ngl', layers, *dgf],
                 'dovetail, a draft model': ['dovetail', '--units', 'cpu', '--draft-units', device, *small],
                 **self.copying(layers, ['--draft-units', device, *small]),
                 'speculative': ['speculative', '--units', device, *small],
                 'duodecoding': ['duodecoding', '--units', device, '--draft-units', 'cpu', *small]}
        return {name: ['-m', f['target'], '--preset', *words] for name, words in flags.items()}

    def copying(self, layers, draft):
        """The systems that copy layers to a GPU; none if it uses the host's memory."""
        if cuda.jetson():
            return {}
        return {f'offload -ngl {layers}': ['offload', '-ngl', layers], f'specexec -ngl {layers}': ['specexec', '-ngl', layers, *draft]}

    def files(self, shape, target, draft):
        """The demonstration pair and its heads in that shape; None if a file could not be written."""
        stem = shape.split(',')[0]
        small = {'target': ('tales-target-q8_0.gguf', target), 'draft': ('tales-draft-q8_0.gguf', draft),
                 'medusa': ('tales-medusa.safetensors', target), 'dgf': ('tales-dgf.safetensors', target)}
        files = {'rates': self.scratch / 'rates.json', 'tree': self.scratch / f'{stem}-tree.json'}
        for what, (name, flags) in small.items():
            files[what] = self.scratch / f'{stem}-{name}' if flags else MODELS / name
            command = [ROOT / 'launch/inflate', MODELS / name, files[what], *flags]
            if flags and self.step(f'{what} of {shape}', command, 120) is None:
                self.remove(files)
                return None
        return files

    def has_trees(self, shape, files, flags):
        """Writes the tree that is among the flags, if it is not there yet: how often guesses are right, and what is best for both units."""
        if '--tree' not in flags:
            return True
        if files['tree'] in flags and shape in self.without_tree:
            return False
        rates = [self.program, 'acceptance', '-m', MODELS / 'tales-target-q8_0.gguf', '--heads', MODELS / 'tales-medusa.safetensors',
                 '--no-lookup', '--policy', 'dynamic-tree', '--draft', '63', '-f', ROOT / 'launch/experiments/tales.jsonl',
                 '--prompts', '3', '-n', self.tokens, '--ignore-eos', '--json', files['rates']]
        if not files['rates'].exists() and self.step('acceptance of guesses', rates, 120) is None:
            return False
        profile = [self.program, 'profile', '-m', files['target'], '--units', f'cpu+{self.device}', '--attention-cut', 'dynamic',
                   '--heads', files['medusa'], '--tree-from', files['rates'], '--tree-out', files['tree'],
                   '-r', '3' if self.rounds > 1 else '1', '--json', self.scratch / 'profile.json']
        if files['tree'] in flags and not files['tree'].exists():
            name = f'{shape}: shares of the units, and the best tree'
            if self.step(name, profile, 900, CUDA_MODULE_LOADING='EAGER') is None:
                self.without_tree.add(shape)
                return False
        return True

    def run_once(self, shape, system, flags):
        row, out = self.row(shape, system), self.scratch / 'run.json'
        command = [self.program, 'run', '-p', self.prompt, '--ignore-eos', '-n', self.tokens, *flags, '--json', out]
        if self.step(f'{shape}: {system}', command, 120, CUDA_MODULE_LOADING='EAGER', **self.emulated) is None:
            return
        run = json.loads(out.read_text())
        row['tokens_per_s'].append(run['decode_tokens_per_s'])
        row |= {key: run[key] for key in ('tokens_per_target_run', 'verify_s', 'draft_s', 'transfer_s', 'device_peak_bytes')}
        row['text'] = zlib.crc32(json.dumps(run['token_ids']).encode())
        self.figures[self.place(shape, system)] = row
        if system != 'cpu' and (alone := self.row(shape, 'cpu'))['tokens_per_s']:
            self.say(f'{shape}: text of {system} is that of the CPU', row['text'] == alone['text'])

    def place(self, shape, system):
        return next((i for i, row in enumerate(self.figures) if (row['of'], row['system']) == (shape, system)), None)

    def row(self, shape, system):
        """The figures of a system, which are empty at first."""
        if (place := self.place(shape, system)) is None:
            place = len(self.figures)
            self.figures.append({'of': shape, 'system': system, 'tokens_per_s': []})
        return self.figures[place]

    def remove(self, files):
        for what in ('target', 'draft', 'medusa', 'dgf'):
            if (path := files.get(what)) and path.parent == self.scratch:
                path.unlink(missing_ok=True)

    def unmeasured(self):
        return {f'{row["of"]}: {row["system"]}': 'a step before it failed or had no time; run it again, which goes on from here'
                for row in self.figures if not row['tokens_per_s']}

    def table(self, unmeasured):
        speeds = {(row['of'], row['system']): statistics.median(row['tokens_per_s']) for row in self.figures if row['tokens_per_s']}
        lines = [HEADER, '|---|---|---|---|---|---|---|---|---|---|']
        for row in self.figures:
            if not row['tokens_per_s']:
                continue
            speed = speeds[row['of'], row['system']]
            ratios = [f'{speed / speeds[row["of"], other]:.2f}' if (row['of'], other) in speeds else '–' for other in ('sequential', 'cpu')]
            seconds = [f'{row[key]:.2f}' for key in ('verify_s', 'draft_s', 'transfer_s')]
            cells = [row['of'], row['system'], f'{speed:.1f}', *ratios, f'{row["tokens_per_target_run"]:.2f}', *seconds,
                     f'{(row["device_peak_bytes"] or 0) / 2**20:.0f}']
            lines.append(f'| {" | ".join(cells)} |')
        return lines + [f'\nNot measured: {what} ({why})' for what, why in unmeasured.items()]
