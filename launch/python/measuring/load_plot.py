"""The figures of experiments with [load]: throughput and latency against the load."""
from . import summary
from .plots import COLOURS, MARKERS, SPREAD_NOTE, plt, where_label, whiskers
from .summary import good, grouped, numbers, spread, varying

AXES = {'concurrency': 'requests at a time', 'rate': 'requests per second'}
# Of each panel: title, unit, scale, and what is drawn as a line, and dotted.
PANELS = (('throughput of all texts', 'tokens/s', 1, 'decode_tokens_per_s', None),
          ('time to first token: median, dotted: 95th percentile', 'ms', 1000, 'first_token_p50_s', 'first_token_p95_s'),
          ('between tokens: mean, dotted: 99th percentile', 'ms', 1000, 'itl_mean_s', 'itl_p99_s'))


def label(row, flags):
    return ' '.join([row['strategy'], *(f'{flag} {row[flag]}' for flag in flags if row[flag])])


def every(rows):
    """(file name, figure) for each kind of load and place: model, cluster and so on."""
    for axis in AXES:
        loaded = [row for row in good(rows) if row[axis]]
        where = varying(loaded, (*summary.SETUP, 'kind'))
        for place, members in grouped(loaded, where).items():
            yield '-'.join(('load', axis, *place)), draw(axis, members, ', '.join(where_label(where, place)))


def draw(axis, rows, place):
    flags = summary.swept(rows)
    levels = sorted({float(row[axis]) for row in rows})
    series = grouped([{**row, 'series': label(row, flags)} for row in rows], ['series'])
    figure, panels = plt.subplots(1, len(PANELS), figsize=(15, 4.5), constrained_layout=True)
    for axes, (title, unit, scale, line, dotted) in zip(panels, PANELS):
        for i, ((name,), members) in enumerate(series.items()):
            look = {'color': COLOURS[i % len(COLOURS)], 'marker': MARKERS[i % len(MARKERS)]}
            shift = (i - (len(series) - 1) / 2) * .03
            for key, style in (line, '-'), (dotted, ':'):
                points = [(levels.index(level) + shift, spread([scale * value for value in values])) for level in levels
                          if key and (values := numbers([row for row in members if float(row[axis]) == level], key))]
                if points:
                    middles = [middle for _, (_, middle, _) in points]
                    axes.errorbar([x for x, _ in points], middles, yerr=whiskers([its for _, its in points]) if style == '-' else None,
                                  linestyle=style, fillstyle='full' if style == '-' else 'none', capsize=3,
                                  label=name if style == '-' else None, **look)
        axes.set_xticks(range(len(levels)), [f'{level:g}' for level in levels])
        axes.set_ylim(bottom=0)
        axes.set(xlabel=AXES[axis], ylabel=unit, title=title)
    panels[0].set_xlabel(f'{AXES[axis]}\n{SPREAD_NOTE}')
    if place:
        figure.suptitle(place)
    panels[0].legend()
    return figure
