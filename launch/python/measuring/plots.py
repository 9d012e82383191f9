"""The figures of an experiment; each is drawn only if there is data for it."""
import io
import math
import re

import matplotlib

matplotlib.use('Agg')
import matplotlib.pyplot as plt
from matplotlib.lines import Line2D

from . import summary
from common.files import refuse_foreign, write_whole
from .summary import good, grouped, numbers, spread, varying

# The colours of Okabe and Ito, which colour-blind people can distinguish. Hatches and markers also distinguish strategies without colour.
COLOURS = ('#0072B2', '#E69F00', '#009E73', '#D55E00', '#56B4E9', '#CC79A7', '#F0E442', '#999999')
HATCHES = ('', '//', '..', 'xx', '\\\\', '++', 'oo', '--')
MARKERS = ('o', 's', '^', 'D', 'v', 'P', 'X', '*')
SPEED = 'decode_tokens_per_s'
OWN = 'launch/plot of Yamata'  # in the metadata of every figure
WHISKERS = {'capsize': 3, 'elinewidth': 1.2, 'ecolor': 'black'}
MOST = 60  # bars or points of one figure; more would not be readable
SPREAD_NOTE = 'median; whiskers: quartiles (of fewer than four runs: range)'
plt.rcParams |= {'font.size': 10, 'axes.grid': True, 'grid.alpha': 0.3, 'axes.axisbelow': True, 'axes.spines.top': False,
                 'axes.spines.right': False, 'hatch.linewidth': 0.6, 'svg.hashsalt': 'yamata'}


def whiskers(spreads):
    """Distances below and above the median, in matplotlib's format."""
    return [[middle - low for low, middle, _ in spreads], [high - middle for _, middle, high in spreads]]


def where_label(keys, place):
    named = [f'{key} {value}' if key in ('tokens', 'temperature', 'seed') else value for key, value in zip(keys, place)]
    return [', '.join(named[i:i + 2]) for i in range(0, len(named), 2)] or ['']


def figure_of(key, scale=1.0):
    return lambda rows: [scale * value for value in numbers(rows, key)]


def memory_mib(rows):
    """Own memory and mapped weights of the rank with the most."""
    def of_ranks(row, key):
        return [float(value) for value in row[key].split(';')]
    return [max(map(sum, zip(of_ranks(row, 'rss_bytes_per_rank'), of_ranks(row, 'mapped_bytes_per_rank')))) / 2**20 for row in rows
            if row.get('rss_bytes_per_rank') and row.get('mapped_bytes_per_rank')]


class Figures:
    """Draws the rows of a results folder; a figure is None if there is no data for it."""

    def __init__(self, rows):
        self.rows = good(rows)
        self.flags = summary.swept(rows)
        self.strategies = list(dict.fromkeys(row['strategy'] for row in rows))
        self.best = {strategy: self.best_setting(strategy) for strategy in self.strategies}
        self.at_best = [row for row in self.rows if self.setting(row) == self.best[row['strategy']]]

    def setting(self, row):
        return tuple(row[flag] for flag in self.flags)

    def best_setting(self, strategy):
        """The swept values with the highest median speed."""
        settings = {}
        for row in self.rows:
            if row['strategy'] == strategy:
                settings.setdefault(self.setting(row), []).append(row)
        return max(settings, key=lambda s: spread(numbers(settings[s], SPEED))[1], default=())

    def label(self, strategy):
        swept = ' '.join(f'{flag} {value}' for flag, value in zip(self.flags, self.best[strategy]) if value)
        return f'{strategy} ({swept})' if swept else strategy

    def look(self, strategy):
        i = self.strategies.index(strategy)
        return COLOURS[i % len(COLOURS)], HATCHES[(i + i // len(HATCHES)) % len(HATCHES)], MARKERS[(i + i // len(MARKERS)) % len(MARKERS)]

    def parts(self, rows, keys):
        """Splits rows by model, then by cluster, and so on, until a figure has few enough groups of `keys`; gives (values, rows) of each
        figure."""
        split = varying(rows, summary.SETUP)
        if len(grouped(rows, keys)) <= MOST or not split:
            yield (), rows
            return
        for value, part in grouped(rows, split[:1]).items():
            for values, members in self.parts(part, keys):
                yield value + values, members

    def bars(self, name, title, unit, values_of, rows=None):
        """Bar charts of the values that `values_of` computes from the rows of a bar, as many as needed to keep them readable."""
        for values, part in self.parts(self.at_best if rows is None else rows, (*summary.SETUP, 'kind', 'strategy')):
            yield '-'.join((name, *values)), self.bar_chart(', '.join((title, *values)), unit, values_of, part)

    def bar_chart(self, title, unit, values_of, rows):
        """Horizontal bars, with a group per place (model, cluster, kind ...) and a bar per strategy: names of any length fit."""
        where = varying(rows, (*summary.SETUP, 'kind'))
        cells = self.cells(rows, where, values_of)
        if not any(middle for places in cells.values() for _, middle, _ in places.values()):
            return None
        used = [s for s in self.strategies if any(s in places for places in cells.values())]
        lines = sum(len(places) + 1 for places in cells.values())
        figure, axes = plt.subplots(figsize=(8, 0.9 + 0.24 * lines), constrained_layout=True)
        ticks, y = [], 0
        for place, places in cells.items():
            begin = y
            for strategy in (s for s in used if s in places):
                colour, hatch, _ = self.look(strategy)
                axes.barh(y, places[strategy][1], 0.9, color=colour, hatch=hatch, edgecolor='white', linewidth=0)
                axes.errorbar(places[strategy][1], y, xerr=whiskers([places[strategy]]), fmt='none', **WHISKERS)
                y += 1
            ticks.append(((begin + y - 1) / 2, '\n'.join(where_label(where, place))))
            y += 1
        axes.set_yticks([tick for tick, _ in ticks], [name for _, name in ticks])
        axes.set_ylim(y - 1.3, -0.7)
        axes.grid(axis='y', visible=False)
        axes.set_xlim(left=0)
        axes.set_xlabel(f'{unit}\n{SPREAD_NOTE}')
        self.finish(figure, title, [plt.Rectangle((0, 0), 1, 1, facecolor=self.look(s)[0], hatch=self.look(s)[1], edgecolor='white')
                                          for s in used], [self.label(s) for s in used])
        return figure

    def cells(self, rows, where, values_of):
        """{place: {strategy: spread}}, where there are values."""
        cells = {}
        for place, members in grouped(rows, where).items():
            for (strategy,), of_one in grouped(members, ['strategy']).items():
                if values := values_of(of_one):
                    cells.setdefault(place, {})[strategy] = spread(values)
        return cells

    def finish(self, figure, title, handles, labels):
        columns = max(1, min(len(labels), 90 // (max(map(len, labels)) + 8)))
        figure.legend(handles, labels, loc='lower center', bbox_to_anchor=(0.5, 1.0), ncol=columns, frameon=False,
                      title=title, title_fontsize=12)

    def lines(self, title, xlabel, series, place=None):
        """series: {strategy: {x: values}}; draws lines with whiskers, slightly shifted so that they do not hide each other. `place` maps an
        x to its position; without it, positions are evenly spaced."""
        series = {strategy: points for strategy, points in series.items() if points}
        positions = sorted({x for points in series.values() for x in points}, key=lambda x: (isinstance(x, str), x))
        if len(positions) < 2:
            return None
        figure, axes = plt.subplots(figsize=(7, 4.5), constrained_layout=True)
        place = place or positions.index
        width = (place(positions[-1]) - place(positions[0])) / 100
        for i, (strategy, points) in enumerate(series.items()):
            colour, _, marker = self.look(strategy)
            xs = sorted(points, key=place)
            spreads = [spread(points[x]) for x in xs]
            shifted = [place(x) + (i - (len(series) - 1) / 2) * width for x in xs]
            axes.errorbar(shifted, [s[1] for s in spreads], yerr=whiskers(spreads), color=colour, marker=marker, capsize=3, label=strategy)
        axes.set_xticks([place(x) for x in positions], [x if isinstance(x, str) else f'{x:g}' for x in positions])
        axes.set_ylim(bottom=0)
        axes.set_xlabel(f'{xlabel}\n{SPREAD_NOTE}')
        axes.set_ylabel('decode speed (tokens/s)')
        self.finish(figure, title, *axes.get_legend_handles_labels())
        return figure

    def figures_of_runs(self):
        yield from self.bars('speed', 'Decode speed', 'tokens/s', figure_of(SPEED))
        yield from self.bars('first_token', 'Time to first token (from the request)', 'ms', figure_of('first_token_s', 1000))
        yield from self.bars('ttft', 'Time to first token (after prefill)', 'ms', figure_of('ttft_s', 1000))
        yield from self.bars('itl', 'Inter-token latency, median within a run', 'ms', figure_of('itl_p50_s', 1000))
        yield from self.bars('itl_p99', 'Inter-token latency, 99th percentile within a run', 'ms', figure_of('itl_p99_s', 1000))
        yield from self.bars('memory', 'Memory of the largest rank: its own and mapped weights', 'MiB', memory_mib)

    def acceptance(self):
        """A figure per model and cluster, with a point per configuration: the share of accepted guesses, and the speed."""
        keys = (*summary.SETUP, 'strategy', *self.flags, 'kind')
        guessed = [row for row in self.rows if summary.number(row, 'drafted')]
        for place, members in self.together(guessed, lambda row: (row['model'], row['cluster'])):
            for values, rows in self.parts(members, keys):
                if len({row['acceptance_rate'] for row in rows}) > 1:
                    what = (*place, *values)
                    yield '-'.join(('acceptance', *what)), self.scatter(f'Acceptance and speed: {", ".join(what)}', rows, keys)

    def scatter(self, title, rows, keys):
        figure, axes = plt.subplots(figsize=(7, 4.8), constrained_layout=True)
        for members in grouped(rows, keys).values():
            colour, _, marker = self.look(members[0]['strategy'])
            x, y = spread(numbers(members, 'acceptance_rate')), spread(numbers(members, SPEED))
            axes.errorbar(x[1], y[1], xerr=whiskers([x]), yerr=whiskers([y]), color=colour, marker=marker, alpha=0.8, capsize=2,
                          linewidth=0.8)
        used = [s for s in self.strategies if any(row['strategy'] == s for row in rows)]
        axes.set_ylim(bottom=0)
        axes.set_xlabel(f'acceptance rate (accepted / drafted)\n{SPREAD_NOTE}')
        axes.set_ylabel('decode speed (tokens/s)')
        handles = [Line2D([], [], color=self.look(s)[0], marker=self.look(s)[2], linestyle='') for s in used]
        self.finish(figure, f'{title}: a point per setting and kind of prompt', handles, used)
        return figure

    def scaling(self):
        """A figure per model and family of clusters that only differ in size; other clusters are drawn together."""
        rows = [row for row in self.at_best if row.get('nodes')]
        family = {row['cluster']: row['cluster'].removesuffix(f'-{row["nodes"]}') for row in rows}
        sizes = {name: {row['nodes'] for row in rows if family[row['cluster']] == name} for name in family.values()}
        for (model, name), members in self.together(rows, lambda row: (row['model'], family[row['cluster']] if len(
                sizes[family[row['cluster']]]) > 1 else 'clusters')):
            yield f'scaling-{model}-{name}', self.lines(f'Speed and number of ranks: {model}, {name}', 'ranks',
                                                        self.speeds(members, lambda row: float(row['nodes'])), place=math.log2)

    def sweeps(self):
        """A figure per swept flag, model and cluster; other flags have the strategy's best values."""
        for i, flag in enumerate(self.flags):
            def others_at_best(row, i=i):
                setting, best = self.setting(row), self.best[row['strategy']]
                return setting[:i] + setting[i + 1:] == best[:i] + best[i + 1:]
            rows = [row for row in self.rows if row[flag] and others_at_best(row)]
            for (model, cluster), members in self.together(rows, lambda row: (row['model'], row['cluster'])):
                yield f'sweep{flag}-{model}-{cluster}', self.lines(f'Speed and {flag}: {model}, {cluster}', flag,
                                                                   self.speeds(members, lambda row, flag=flag: as_number(row[flag])))

    def together(self, rows, key):
        groups = {}
        for row in rows:
            groups.setdefault(key(row), []).append(row)
        return groups.items()

    def speeds(self, rows, x):
        """{strategy: {x: speeds}}."""
        series = {strategy: {} for strategy in self.strategies}
        for row in rows:
            series[row['strategy']].setdefault(x(row), []).append(float(row[SPEED]))
        return series

    def ablations(self):
        """Speed of each ablation, relative to the full configuration in the same repeat and with the same prompt."""
        wholes = {row['strategy']: row['ablation_of'] for row in self.rows if row['ablation_of']}
        unit = f'speed relative to {", ".join(sorted(set(wholes.values())))} in the same repeat (1: no difference)'
        rows = [row for row in self.at_best if row['strategy'] in wholes]
        for name, figure in self.bars('ablations', 'Ablations', unit, self.relative(wholes), rows) if rows else ():
            if figure:
                axes = figure.axes[0]
                axes.axvline(1, color='black', linestyle='--', linewidth=1)
                axes.set_xlim(right=max(1.05, axes.get_xlim()[1]))
            yield name, figure

    def relative(self, wholes):
        return lambda rows: summary.ratios(rows, self.rows, wholes[rows[0]['strategy']])

    def every(self):
        """(file name, figure or None) of all possible figures."""
        for some in (self.figures_of_runs, self.acceptance, self.ablations, self.scaling, self.sweeps):
            yield from some()


def as_number(text):
    try:
        return float(text)
    except ValueError:
        return text


def pictures_of(figure, **how):
    """{suffix: bytes} of a figure, which is closed."""
    pictures = {}
    for suffix, metadata in (('png', {'Software': OWN}), ('svg', {'Date': None, 'Creator': OWN})):
        out = io.BytesIO()
        figure.savefig(out, format=suffix, metadata=metadata, **how)
        pictures[suffix] = out.getvalue()
    plt.close(figure)
    return pictures


def write(pictures, folder):
    """Writes {name: {suffix: bytes}}, all or none. Raises Problem if one would replace a file that is no figure of launch/plot."""
    files = {folder / f'{name}.{suffix}': picture for name, of_one in pictures.items() for suffix, picture in of_one.items()}
    for path in files:
        refuse_foreign(path, OWN.encode(), 'a figure of launch/plot', 'write to another folder with --out')
    for path, picture in files.items():
        write_whole(path, picture)


def draw(rows, folder):
    """Writes every figure as PNG and SVG; returns their names."""
    from . import load_plot  # which needs this module
    figures = load_plot.every(rows) if summary.loads(rows) else Figures(rows).every()
    pictures = {re.sub(r'[^\w.-]+', '_', name): pictures_of(figure, dpi=130, bbox_inches='tight')
                for name, figure in figures if figure is not None}
    write(pictures, folder)
    return list(pictures)
