"""Draws a table of `launch/stress --csv`: speeds of random clusters against how unequal their hosts are."""
import ast
import csv
import io
import pathlib

from common.files import reading
from common.problem import Problem
from emulation.scenarios import CORES_FASTER, SCALAR_SLOWER

REMEDY = 'name a table of launch/stress --csv, or a results folder'
# columns of speeds: the first against the second
PAIRS = {'chosen_by_hand_tokens_per_s': 'best_by_hand_tokens_per_s', 'guessing_tokens_per_s': 'iterative_tokens_per_s'}
FORECASTS = {'guessing_of_expected': 'guessing', 'iterative_of_expected': 'iterative'}
CLOSE = 0.2  # as in launch/stress


def inequality(row):
    """The speed of the fastest host divided by that of the slowest, roughly."""
    cpu, cores, isa = (ast.literal_eval(row[key]) for key in ('cpu', 'cores', 'isa'))
    speeds = [percent * (CORES_FASTER if count > 1 else 1) / (SCALAR_SLOWER if name == 'scalar' else 1)
              for percent, count, name in zip(cpu, cores, isa, strict=True)]
    return max(speeds) / min(speeds)


def read(path):
    """The rows of clusters without a fault and without a wrong outcome. Raises Problem (2) if the file is no such table."""
    with reading(path, REMEDY):
        text = pathlib.Path(path).read_bytes().decode(errors='replace')
    rows = list(csv.DictReader(io.StringIO(text)))
    needed = {'cpu', 'cores', 'isa', 'fault', 'outcome', *PAIRS, *PAIRS.values(), *FORECASTS}
    if not rows or needed - rows[0].keys():
        raise Problem(f'{path} is not a table of launch/stress; {REMEDY}', 2)
    good = [row for row in rows if row['outcome'] == 'right' and row['fault'] == 'none']
    try:
        for row in good:
            row['inequality'] = inequality(row)
            for key in [key for key in (*PAIRS, *PAIRS.values(), *FORECASTS) if row[key]]:
                row[key] = float(row[key])
    except (ValueError, SyntaxError, TypeError, AttributeError, ZeroDivisionError):
        raise Problem(f'{path} is damaged in the row of seed {row.get("seed")}; repeat the run', 2) from None
    if not good:
        raise Problem(f'{path} has no cluster without a fault, so there is nothing to draw; give launch/stress --calm or --best', 2)
    return good


def name_of(column):
    return column.removesuffix('_tokens_per_s').removesuffix('_by_hand')


def draw(rows):
    """The figure, with up to three panels, each against the inequality of the hosts: speeds, their ratio, measured / expected speed."""
    from matplotlib.ticker import FuncFormatter

    from .plots import COLOURS, MARKERS, plt
    first, second = next(((one, other) for one, other in PAIRS.items() if any(row[one] for row in rows)))
    compared = [row for row in rows if row[first] and row[second]]
    figure, (speeds, ratios, forecasts) = plt.subplots(1, 3, figsize=(15, 4.5))
    for i, key in enumerate((first, second)):
        speeds.plot([row['inequality'] for row in compared], [row[key] for row in compared], color=COLOURS[i], marker=MARKERS[i],
                    linestyle='', fillstyle='none' if i else 'full', label=name_of(key))
    ratios.plot([row['inequality'] for row in compared], [row[first] / row[second] for row in compared], color=COLOURS[0],
                marker=MARKERS[0], linestyle='')
    ratios.axhline(1, color='black', linewidth=0.8)
    for i, (key, name) in enumerate(FORECASTS.items()):
        told = [row for row in rows if row[key]]
        forecasts.plot([row['inequality'] for row in told], [row[key] for row in told], color=COLOURS[i], marker=MARKERS[i], linestyle='',
                       label=name)
    forecasts.axhspan(1 - CLOSE, 1 + CLOSE, color='grey', alpha=0.2)
    names = [name_of(key) for key in (first, second)]
    speeds.set(ylabel='tokens/s', title=f'{names[0]} against {names[1]}')
    ratios.set(ylabel=f'{names[0]} / {names[1]}', title='ratio')
    forecasts.set(ylabel='measured / expected speed', title='forecasts of first jobs')
    for axes in (speeds, ratios, forecasts):
        axes.set(xlabel='fastest host / slowest host', xscale='log')
        axes.set_ylim(0, 1.05 * axes.get_ylim()[1])
        for set_formatter in (axes.xaxis.set_major_formatter, axes.xaxis.set_minor_formatter):
            set_formatter(FuncFormatter(lambda value, _: f'{value:g}'))
    speeds.legend()
    forecasts.legend()
    figure.tight_layout()
    return figure
