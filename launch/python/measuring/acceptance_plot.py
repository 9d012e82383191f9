"""Draws a file of `yamata acceptance --json`: acceptance rates of guesses by source, tokens ahead and choice."""
import re

from common.files import read_json
from common.json_shape import INDEX, NOT_NEGATIVE, TEXT, fault, require
from common.problem import Problem

REMEDY = 'name a file of yamata acceptance --json, or a results folder'


def are_sizes(value):
    """Whether a value is {number of rows: tokens}."""
    return isinstance(value, dict) and bool(value) and all(re.fullmatch('[1-9][0-9]{0,8}', rows) and NOT_NEGATIVE[0](tokens)
                                                           for rows, tokens in value.items())


SOURCE = {'name': TEXT, 'levels': [{'guessed': INDEX, 'true_rate': NOT_NEGATIVE, 'calibrated_rate': NOT_NEGATIVE}],
          'accuracies': [((lambda value: isinstance(value, list) and all(NOT_NEGATIVE[0](share) for share in value)), 'a list of shares')],
          'tokens_per_run': (are_sizes, 'the tokens of a run by its rows')}


def read(path):
    """The sources in the file. Raises Problem (2) if the file is not of that kind."""
    content = read_json(path, REMEDY)
    sources = content.get('sources') if isinstance(content, dict) else None
    if sources != []:
        require(path, 'a file of yamata acceptance', fault(content, {'sources': [SOURCE]}), REMEDY)
    if not any(level['guessed'] for source in sources for level in source['levels']):
        raise Problem(f'{path} has no guesses, so there is nothing to draw; measure with a source that guesses', 2)
    return sources


def draw(sources):
    """The figure, with three panels: rates by tokens ahead; rates of each choice one token ahead; tokens per run by size of the tree."""
    from matplotlib.ticker import MaxNLocator

    from .plots import COLOURS, HATCHES, MARKERS, plt
    figure, (rates, choices, trees) = plt.subplots(1, 3, figsize=(15, 4.5))
    for i, source in enumerate(sources):
        colour, marker = COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]
        levels = [level for level in source['levels'] if level['guessed']]
        ahead = range(1, len(levels) + 1)
        rates.plot(ahead, [level['true_rate'] for level in levels], color=colour, marker=marker, label=source['name'])
        rates.plot(ahead, [level['calibrated_rate'] for level in levels], color=colour, marker=marker, linestyle=':', fillstyle='none')
        first = source['accuracies'][0]
        width = 0.8 / len(sources)
        choices.bar([k + 1 + (i - (len(sources) - 1) / 2) * width for k in range(len(first))], first, width, color=colour,
                    hatch=HATCHES[i % len(HATCHES)], edgecolor='black', linewidth=0.5, label=source['name'])
        widths = sorted(map(int, source['tokens_per_run']))
        trees.plot(widths, [source['tokens_per_run'][str(rows)] for rows in widths], color=colour, marker=marker, label=source['name'])
    rates.set(xlabel='tokens ahead', ylabel='first choices that are right', ylim=(0, 1), title='true (line) and calibrated (dotted)')
    choices.set(xlabel='choice', ylabel='share of all tokens', title='one token ahead')
    trees.set(xlabel='rows of a run', ylabel='tokens of a run', xscale='log', title='the best tree of each size')
    for axes in (rates, choices):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    trees.set_xticks(widths, [str(rows) for rows in widths])
    rates.legend()
    figure.tight_layout()
    return figure
