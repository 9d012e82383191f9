"""launch/stress: what a seed determines, what is read from a plan, and some clusters, with the demonstration models. The latter is skipped,
with the reason, if no hosts can be emulated. Exit code 77: skipped."""
import json
import pathlib
import re
import subprocess
import tempfile
import unittest

from support import DRAFT, PROGRAM, ROOT, TARGET, main, some
from emulation import plans, scenarios
from emulation.scenarios import Scenario
from measuring import stress_plot

SEEDS = range(400)


def shares_in(split):
    return len(re.findall('[0-9.]+', split))


class Scenarios(unittest.TestCase):
    def test_seed_decides_everything(self):
        self.assertEqual(Scenario(5).describe(), Scenario(5).describe())
        all_of_them = [Scenario(seed) for seed in SEEDS]
        self.assertEqual({scenario.fault for scenario in all_of_them},
                         {'none', 'slow host', 'unsteady host', 'stalled link', 'killed drafter', 'killed host'})
        self.assertEqual({scenario.layout.kind for scenario in all_of_them}, set(scenarios.LAYOUTS))
        self.assertEqual({scenario.layout.draft for scenario in all_of_them}, {'auto', *scenarios.DRAFTS})
        self.assertLessEqual({'best', 'scalar'}, {isa for scenario in all_of_them for isa in scenario.isa})

    def test_given_layout_has_a_share_for_each_rank(self):
        for scenario in (scenario for scenario in map(Scenario, SEEDS) if scenario.layout.kind != 'auto'):
            layout = scenario.layout
            with self.subTest(scenario.seed):
                self.assertEqual(shares_in(layout.split), layout.ranks)
                self.assertAlmostEqual(sum(map(float, re.findall('[0-9.]+', layout.split))), 1, delta=0.07)
                flags = layout.guessing('draft.gguf')
                self.assertEqual(shares_in(flags[flags.index('--layer-split') + 1]), len(layout.roles()))
                self.assertLessEqual(len(layout.roles()), scenario.hosts)
                self.assertEqual('-md' in flags, layout.draft != 'none')
                self.assertEqual(plans.drafters(layout.roles()), {layout.ranks} if layout.draft == 'own rank' else set())
                self.assertEqual('+' in layout.split, layout.kind != 'pipeline')
                self.assertEqual(',' in layout.split, layout.kind != 'group')
                self.assertLessEqual(max(map(shares_in, layout.split.split(','))), scenarios.MOST_MEMBERS)

    def test_drafter_is_killed_only_where_a_rank_may_only_draft(self):
        for scenario in map(Scenario, SEEDS):
            if scenario.fault == 'killed drafter':
                self.assertIn(scenario.layout.draft, ('auto', 'own rank'))

    def test_speed_changes_only_with_quotas_and_hosts_pause_otherwise(self):
        for scenario in map(Scenario, SEEDS):
            limits = scenario.limits()
            self.assertEqual('slow' in limits, scenario.fault not in scenarios.CHANGES)
            self.assertEqual(limits['cpu'] == scenario.cpu, scenario.fault in scenarios.CHANGES)
            self.assertLessEqual(sum(1 / factor for factor in limits.get('slow', [])), 1)

    def test_calm_scenario_is_the_same_cluster_without_a_fault(self):
        for seed in SEEDS:
            calm, other = Scenario(seed, calm=True), Scenario(seed)
            self.assertEqual((calm.fault, calm.layout.kind, calm.slowed_by), ('none', 'auto', 'pauses'))
            self.assertEqual((calm.cpu, calm.rate, calm.delay), (other.cpu, other.rate, other.delay))

    def test_victim_is_one_of_the_given_ranks(self):
        self.assertEqual({Scenario(seed).victim_of({4, 2}) for seed in SEEDS}, {2, 4})
        self.assertEqual({Scenario(seed).victim_of([0]) for seed in SEEDS}, {0})


class Plans(unittest.TestCase):
    RESULT = {'per_rank': [{'rank': rank, 'role': role} for rank, role in enumerate(['head, drafter', 'idle', 'stage', 'drafter', 'lost'])]}

    def test_idle_ranks_take_no_part(self):
        self.assertEqual(plans.participants(self.RESULT), {0: 'head, drafter', 2: 'stage', 3: 'drafter', 4: 'lost'})
        self.assertEqual(plans.drafters(plans.participants(self.RESULT)), {3})

    def test_chosen_layout_is_found_in_a_plan(self):
        layouts = [{'hosts': 'n0', 'strategy': 'speculative'}, {'hosts': 'n0', 'strategy': 'iterative'}]
        for number, layout in enumerate(layouts):
            self.assertIs(plans.chosen_layout({'plan': {'layouts': layouts, 'chosen': number}}), layout)
        self.assertIsNone(plans.chosen_layout({}))

    def test_each_layout_of_a_plan_can_be_started_by_hand(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / 'plan.json'
            subprocess.run([PROGRAM, 'plan', '-m', TARGET, '-md', DRAFT, '--ranks', '4', '--slow', '1=3', '--json', file], check=True,
                           stdout=subprocess.DEVNULL)
            layouts = json.loads(file.read_text())['layouts']
        self.assertTrue(any(layout['draft_on_head'] for layout in layouts))
        for layout in layouts:
            names, flags = plans.command_of(layout, 'draft.gguf')
            with self.subTest(layout['hosts'], strategy=layout['strategy']):
                self.assertEqual(len(names), len(set(names)))
                self.assertEqual('-md' in flags, '/' in layout['hosts'])
                if len(names) > 1:
                    self.assertEqual(shares_in(flags[flags.index('--layer-split') + 1]), len(names))


class Some(unittest.TestCase):
    def test_they_end_rightly(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, file in (('target', TARGET), ('draft', DRAFT)):
                (pathlib.Path(folder) / f'tales-{name}-0.3b.gguf').symlink_to(file)
            for flags in some(['--seeds', '43750'], ['--best', '1', '--seeds', '1'], ['--seeds', '3,8,10']):
                with self.subTest(flags=flags):
                    table = pathlib.Path(folder) / 'stress.csv'
                    done = subprocess.run([ROOT / 'launch' / 'stress', *flags, '-n', '96', '--least', '0', '--models', folder,
                                           '--csv', table], stderr=subprocess.PIPE, text=True)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    if '--best' in flags:  # launch/plot can draw it
                        self.assertTrue(all(row['chosen_by_hand_tokens_per_s'] for row in stress_plot.read(table)))


if __name__ == '__main__':
    main('some random clusters', Some)
