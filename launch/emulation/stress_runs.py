"""Jobs on the random clusters of launch/stress, and the faults that are caused in them."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess

from common import places
from measuring import steps

from . import hosts as emulation
from . import plans
from .campaign import Reader, complaints, output_of
from .scenarios import KILLS

COLUMNS = ['seed', 'hosts', 'slowed_by', 'cpu', 'cores', 'isa', 'mbit', 'delay_ms', 'jitter_ms', 'loss_percent', 'layout', 'fault', 'hit',
           'iterative_chosen', 'iterative_tokens_per_s', 'iterative_of_expected', 'guessing_chosen', 'guessing_tokens_per_s',
           'guessing_of_expected', 'ratio', 'best', 'chosen_by_hand_tokens_per_s', 'best_by_hand_tokens_per_s', 'chosen_of_best', 'outcome']
STALL_S = 2
TRIES = 3  # to kill a drafter: measured speeds may differ from those of the job before, and with them the layout
SWINGS = 3  # of an unsteady host
EXIT_LOST = 3  # the program's exit code for a lost rank


def models(folder):
    """The demonstration models in a size whose computation takes a measurable time."""
    folder.mkdir(parents=True, exist_ok=True)
    target, draft = folder / 'tales-target-0.3b.gguf', folder / 'tales-draft-0.3b.gguf'
    for file, source, shape in ((target, 'target', ['--shape', '0.3b']),
                                (draft, 'draft', ['--dim', '512', '--layers', '4', '--heads', '8', '--kv-heads', '2', '--ffn', '1408'])):
        if not file.exists():
            output_of([places.LAUNCH / 'inflate', places.ROOT / 'models' / f'tales-{source}-q8_0.gguf', file, *shape])
    return target, draft


class Wrong(Exception):
    """A job that did not end as it should, in a line."""


class Stress:
    """`tokens`: of each text; `deadline_s`: of each job; `rounds`: of layouts by hand; `folder`: for temporary files."""

    def __init__(self, models_folder, folder, tokens, deadline_s, rounds=0):
        self.tokens, self.deadline_s, self.rounds = tokens, deadline_s, rounds
        self.target, self.draft = models(models_folder)
        self.json, self.cache = folder / 'result.json', folder / 'cache'
        self.program = [str(places.program()), 'run', '-m', str(self.target), '--ignore-eos', '--json', str(self.json)]
        self.references = {}

    def reference(self, prompt):
        """(token ids, bytes of text) of a single process."""
        if prompt not in self.references:
            output_of([*self.program, '-n', str(self.tokens), '-p', prompt])
            result = json.loads(self.json.read_text())
            self.references[prompt] = result['token_ids'], len(result['text'].encode())
        return self.references[prompt]

    def forget(self):
        """Removes what jobs have measured: the next one is a first job."""
        shutil.rmtree(self.cache, ignore_errors=True)

    def cluster(self, scenario):
        """A cluster on which nothing has been measured yet."""
        self.forget()
        return emulation.Cluster(scenario.hosts, **scenario.limits(), cache=self.cache)

    def play(self, scenario):
        """Executes a scenario; returns a row of the table."""
        row = dict(seed=scenario.seed, hosts=scenario.hosts, slowed_by=scenario.slowed_by, cpu=scenario.cpu, cores=scenario.cores,
                   isa=scenario.isa, mbit=scenario.rate, delay_ms=scenario.delay, jitter_ms=scenario.jitter, loss_percent=scenario.loss,
                   layout=scenario.layout.describe(), fault=scenario.fault)
        try:
            with self.cluster(scenario) as cluster:
                Play(self, scenario, cluster, row).play()
        except Wrong as wrong:
            return row | {'outcome': str(wrong)}
        return row | {'outcome': 'right'}


class Play:
    """A scenario on its cluster; fills in a row of the table."""

    def __init__(self, stress, scenario, cluster, row):
        self.stress, self.scenario, self.cluster, self.row = stress, scenario, cluster, row
        self.reference, self.text_bytes = stress.reference(scenario.prompt)
        self.plain, self.guessing = scenario.layout.plain(), scenario.layout.guessing(stress.draft)
        given = scenario.layout.kind != 'auto'
        self.names = [host.name for host in cluster.hosts][:len(scenario.layout.roles()) if given else None]
        self.without_drafter = self.names[:scenario.layout.ranks]  # of a given layout; with auto, all hosts

    def play(self):
        """Raises Wrong if a job did not end as it should."""
        fault = self.scenario.fault
        if fault in KILLS:
            return self.play_killed()
        if fault == 'none':
            self.note('iterative', self.run('iterative', self.plain, self.without_drafter))
            self.stress.forget()
            guessed = self.run('guessing', self.guessing, self.names)
            self.note('guessing', guessed)
            if self.stress.rounds:
                self.compare_by_hand(guessed)
        else:
            victim = self.scenario.victim_of(self.roles('iterative', self.plain).keys() & self.roles('guessing', self.guessing).keys()
                                             & set(range(len(self.without_drafter))))
            self.note('iterative', self.run('iterative', self.plain, self.without_drafter, victim))
            guessed = self.run('guessing', self.guessing, self.names, victim)
            self.note('guessing', guessed)
            self.row['hit'] = f'n{victim}, {plans.participants(guessed).get(victim, "idle")}'
        self.compare()

    def note(self, name, result):
        """The speed of a job, and of one without a fault how it compares with the expected one."""
        self.row[f'{name}_tokens_per_s'] = round(result['decode_tokens_per_s'], 3)
        if self.scenario.fault == 'none' and (chosen := plans.chosen_layout(result)):
            self.row[f'{name}_of_expected'] = round(result['decode_tokens_per_s'] / chosen['decode_tokens_per_s'], 3)
            self.row[f'{name}_chosen'] = plans.describe(chosen)

    def compare(self):
        self.row['ratio'] = round(self.row['guessing_tokens_per_s'] / self.row['iterative_tokens_per_s'], 3)

    def roles(self, name, flags):
        """{rank: role} of the ranks with a part in such a job: as given, or from one that is interrupted as it begins to
        write."""
        if self.scenario.layout.kind != 'auto':
            return self.scenario.layout.roles()
        result, code, errors = self.job(name, flags, self.names, lambda job, reader: reader.read(1) and job.send_signal(signal.SIGINT))
        if not result:
            raise failed(name, code, errors)
        return plans.participants(result)

    def job(self, name, flags, names, disturb):
        """Executes a job; calls disturb(mpirun, reader) as it begins. Returns its JSON, if it has written any, its exit code and its error
        messages. Raises Wrong if it hangs."""
        stress = self.stress
        stress.json.unlink(missing_ok=True)
        job = self.cluster.start([*stress.program, '-n', str(stress.tokens), '-p', self.scenario.prompt, *flags], names=names,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        ended = False
        try:
            reader = Reader(job, stress.deadline_s)
            disturb(job, reader)
            errors = job.communicate(timeout=reader.left_s())[1]
            ended = True
        except subprocess.TimeoutExpired:
            raise Wrong(f'{name} hung for {stress.deadline_s} s') from None
        finally:
            if not ended:
                for host in self.cluster.hosts:
                    host.kill()
                steps.kill(job)
        return json.loads(stress.json.read_text()) if stress.json.exists() else None, job.returncode, errors

    def run(self, name, flags, names, victim=None):
        """A job that must write the whole text, although a fault hits `victim`; returns its JSON."""
        happened = [victim is None]

        def disturb(job, reader):
            if victim is not None:
                happened[0] = self.disturb(self.cluster.hosts[victim], reader)
        result, code, errors = self.job(name, flags, names, disturb)
        if not result:
            raise failed(name, code, errors)
        if not happened[0]:
            raise Wrong(f'{name} ended before there could be a {self.scenario.fault}')
        if result['token_ids'] != self.reference:
            raise Wrong(f'{name} wrote another text')
        return result

    def disturb(self, host, reader):
        """Causes the fault and repairs it while the text is written; returns whether it happened in time."""
        moment, index = self.scenario.moment, self.cluster.hosts.index(host)

        def written(more):
            return reader.read((moment + more) * self.text_bytes)
        if not written(0):
            return False
        if self.scenario.fault == 'stalled link':
            self.cluster.tell('stall', index, STALL_S)
        elif self.scenario.fault in KILLS:
            kill_ranks(host)
        else:
            swings = SWINGS if self.scenario.fault == 'unsteady host' else 1
            for swing in range(swings):
                host.set_cpu(self.scenario.cpu[index] / 4)
                try:
                    written((2 * swing + 1) * 0.25 / (2 * swings - 1))
                finally:
                    host.set_cpu(self.scenario.cpu[index])
                written((2 * swing + 2) * 0.25 / (2 * swings - 1))
        return True

    def play_killed(self):
        """Kills a rank that only drafts, without which the text goes on, or one with layers of the target, which ends the job."""
        for attempt in range(TRIES):
            roles = self.roles('guessing', self.guessing)
            drafters = plans.drafters(roles) if self.scenario.fault == 'killed drafter' else set()
            victim = self.scenario.victim_of(drafters or roles.keys() - plans.drafters(roles))
            if not drafters:
                self.scenario.fault = self.row['fault'] = 'killed host'
                self.row['hit'] = f'n{victim}, {roles[victim]}'
                return self.lose_host(victim)
            try:
                guessed = self.run('guessing', self.guessing, self.names, victim)
                break
            except Wrong as wrong:  # it may have had layers of the target this time
                if attempt == TRIES - 1 or 'was killed by signal' not in str(wrong):
                    raise
        self.row['hit'] = f'n{victim}, drafter'
        self.note('guessing', guessed)
        self.note('iterative', self.run('iterative', self.plain, [name for name in self.names if name != f'n{victim}']))
        self.compare()

    def lose_host(self, victim):
        """The job ends with a line that names the rank."""
        happened = []
        _, code, errors = self.job('guessing', self.guessing, self.names,
                                   lambda job, reader: happened.append(self.disturb(self.cluster.hosts[victim], reader)))
        lines = complaints(errors)
        if not happened[0]:
            raise Wrong('guessing ended before there could be a killed host')
        if code != EXIT_LOST or len(lines) != 1 or not re.search(rf'\brank {victim}\b', lines[0]):
            raise Wrong(f'guessing ended with exit code {code} when rank {victim} was killed: {" | ".join(lines) or first_line(errors)}')

    def compare_by_hand(self, chosen_by_auto):
        """The chosen layout against those that the plan expects most of, all started by hand, in interleaved rounds."""
        chosen, others = plans.layouts_by_hand(chosen_by_auto, 5)
        layouts = [chosen, *others]
        speeds = [[] for _ in layouts]
        for _ in range(self.stress.rounds):
            for layout, its in zip(layouts, speeds):
                names, flags = plans.command_of(layout, self.stress.draft)
                its.append(self.run(f'{plans.describe(layout)} by hand', flags, names)['decode_tokens_per_s'])
        medians = [statistics.median(its) for its in speeds]
        best = max(range(len(layouts)), key=medians.__getitem__)
        self.row.update(best=plans.describe(layouts[best]), chosen_by_hand_tokens_per_s=round(medians[0], 3),
                        best_by_hand_tokens_per_s=round(medians[best], 3), chosen_of_best=round(medians[0] / medians[best], 3))


def kill_ranks(host):
    """Kills the program on a host, not the process that watches it."""
    for process in host.processes():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            if pathlib.Path(f'/proc/{process}/comm').read_text() == 'yamata\n':
                os.kill(process, signal.SIGKILL)


def failed(name, code, errors):
    return Wrong(f'{name} failed with exit code {code}: {first_line(errors)}')


def first_line(text):
    return [*complaints(text), *text.splitlines(), 'no message'][0]
