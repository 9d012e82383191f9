"""Draws a file of `yamata acceptance --json`: acceptance rates of guesses by source, tokens ahead and choice."""
import json
import pathlib

from .problem import Problem


REMEDY = 'name a file of yamata acceptance --json, or a results folder'


def has_rates(source):
    """Whether a source of the file has all that is drawn."""
    try:
        source['name'], source['tokens_per_run'].items(), [level['true_rate'] + level['calibrated_rate'] for level in source['levels']]
        return all(level['guessed'] >= 0 for level in source['levels']) and bool([[float(share) for share in level]
                                                                                  for level in source['accuracies']])
    except (ValueError, KeyError, TypeError, AttributeError):
        return False


def read(path):
    """The sources in the file. Raises Problem if the file is not of that kind."""
    try:
        content = json.loads(pathlib.Path(path).read_text())
    except OSError as error:
        raise Problem(f'{path} cannot be read ({error.strerror}); {REMEDY}', 2) from None
    except ValueError:
        raise Problem(f'{path} is not JSON; {REMEDY}', 2) from None
    sources = content.get('sources') if isinstance(content, dict) else None
    if not isinstance(sources, list):
        raise Problem(f'{path} has no list of sources of guesses; {REMEDY}', 2)
    for number, source in enumerate(sources, 1):
        if not has_rates(source):
            raise Problem(f'{path}: source {number} of guesses has no complete rates; {REMEDY}', 2)
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
