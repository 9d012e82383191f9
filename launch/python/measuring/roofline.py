"""The roofline of machines, and the position of runs of each width below it."""
import io
import math

from common.files import read_json
from common.json_shape import INDEX, NOT_NEGATIVE, POSITIVE, TEXT, fault, require
from common.problem import Problem

REMEDY = 'name a file that yamata profile -m MODEL --json wrote'
SHAPE = {'machine': {'cpu': TEXT, 'isa': TEXT}, 'model': {'type': TEXT, 'threads': INDEX},
         'threads': [{'read_bytes_per_s': POSITIVE, 'int8_ops_per_s': POSITIVE, 'float_ops_per_s': POSITIVE}],
         'widths': [{'width': INDEX, 'bytes': POSITIVE, 'ops': POSITIVE, 'int8_ops': NOT_NEGATIVE, 'float_ops': NOT_NEGATIVE,
                     'time_s': POSITIVE}]}


def read_profile(path):
    """Reads a profile of 'yamata profile -m MODEL --json'."""
    profile = read_json(path, REMEDY)
    if not isinstance(profile, dict) or not profile.get('widths'):
        raise Problem(f'{path} has no widths; make it with yamata profile -m MODEL --json {path}', 2)
    require(path, 'a profile of a model', fault(profile, SHAPE), REMEDY)
    return profile


def ceiling_of(profile):
    """(GB/s, Gop/s) of the number of threads with which the model ran; of integer products if the weights are quantized."""
    threads = profile['threads'][-1]
    first = profile['widths'][0]
    peak = 'int8_ops_per_s' if first['int8_ops'] > first['float_ops'] else 'float_ops_per_s'
    return threads['read_bytes_per_s'] / 1e9, threads[peak] / 1e9


def points_of(profile):
    """(operations per byte, Gop/s, width) of each width."""
    return [(run['ops'] / run['bytes'], run['ops'] / run['time_s'] / 1e9, run['width']) for run in profile['widths']]


def name_of(profile):
    machine, model = profile['machine'], profile['model']
    return f'{machine["cpu"]}, {model["threads"]} threads, {machine["isa"]}: {model["type"]}'


def picture_of(profiles, suffix):
    """The bytes of the figure: png, svg or pdf."""
    import matplotlib
    matplotlib.use('Agg')
    from matplotlib import pyplot as plt

    from .plots import COLOURS, MARKERS
    figure, axes = plt.subplots(figsize=(8, 5.5))
    all_points = [point for profile in profiles for point in points_of(profile)]
    ridges = [peak / bandwidth for bandwidth, peak in map(ceiling_of, profiles)]
    left = min(x for x, _, _ in all_points) / 2
    right = max(*ridges, *(x for x, _, _ in all_points)) * 2
    for i, profile in enumerate(profiles):
        colour, marker = COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]
        bandwidth, peak = ceiling_of(profile)
        ridge = peak / bandwidth
        xs = [left, min(max(ridge, left), right), right]
        axes.plot(xs, [min(x * bandwidth, peak) for x in xs], color=colour, linewidth=1.8)
        axes.annotate(f'{bandwidth:.1f} GB/s', (math.sqrt(left * ridge), math.sqrt(left * ridge) * bandwidth), xytext=(-6, 6),
                      textcoords='offset points', ha='right', color=colour, fontsize=9)
        axes.annotate(f'{peak:.0f} Gop/s', (right, peak), xytext=(-4, 5), textcoords='offset points', ha='right', color=colour, fontsize=9)
        points = points_of(profile)
        axes.plot([x for x, _, _ in points], [y for _, y, _ in points], color=colour, linewidth=0.8, linestyle=':', marker=marker,
                  markersize=6, label=name_of(profile))
        for x, y, width in points:
            axes.annotate(str(width), (x, y), xytext=(5, -11), textcoords='offset points', fontsize=8)
    axes.set_xscale('log', base=2)
    axes.set_yscale('log')
    axes.set_xlim(left, right)
    axes.xaxis.set_major_formatter(lambda value, _: f'{value:g}')
    axes.set_xlabel('operations per byte read (one multiply-add is two)')
    axes.set_ylabel('Gop/s')
    axes.set_title('Lines: what the machine can do. Points: one run of so many tokens')
    axes.grid(which='both', alpha=0.25)
    axes.legend(loc='lower right', fontsize=8)
    figure.tight_layout()
    out = io.BytesIO()
    figure.savefig(out, format=suffix, dpi=150)
    plt.close(figure)
    return out.getvalue()
