"""Evaluates the rows of a results folder: medians, spreads, and ratios of runs that were made next to each other."""
import collections
import statistics

SETUP = ('model', 'cluster', 'tokens', 'temperature', 'seed')
PAIRED = (*SETUP, 'prompt', 'repeat')
LOAD = ('concurrency', 'rate')  # columns of experiments with [load]


def number(row, key):
    try:
        return float(row.get(key) or 'none')
    except ValueError:
        return None


def numbers(rows, key):
    return [value for row in rows if (value := number(row, key)) is not None]


def good(rows):
    return [row for row in rows if not row['error']]


def swept(rows):
    """The flags that the experiment swept: columns that begin with a dash."""
    return [key for key in (rows[0] if rows else {}) if key.startswith('-')]


def loads(rows):
    """The columns that say with what engines were loaded; empty: they were not."""
    return [key for key in LOAD if rows and key in rows[0]]


def varying(rows, keys):
    return [key for key in keys if len({row[key] for row in rows}) > 1]


def grouped(rows, keys):
    """{values of keys: rows}, in the order of the rows."""
    groups = collections.defaultdict(list)
    for row in rows:
        groups[tuple(row[key] for key in keys)].append(row)
    return groups


def spread(values):
    """(lower quartile, median, upper quartile); with fewer than four values, the least and the greatest instead of the quartiles."""
    if len(values) < 4:
        return min(values), statistics.median(values), max(values)
    low, middle, high = statistics.quantiles(values, n=4, method='inclusive')
    return low, middle, high


def ratios(rows, all_rows, baseline, key='decode_tokens_per_s'):
    """Of every row, its figure divided by that of the baseline strategy in the same repeat, with the same prompt and cluster. If the
    baseline was swept, too, the values must be the same; rows without such a baseline are left out."""
    paired = (*PAIRED, *loads(all_rows))
    base = grouped([row for row in good(all_rows) if row['strategy'] == baseline and number(row, key)], paired)
    flags, found = swept(all_rows), []
    for row in good(rows):
        others = base.get(tuple(row[k] for k in paired), [])
        alike = [other for other in others if all(other[flag] == row[flag] for flag in flags)]
        values = numbers(alike or [other for other in others if not any(other[flag] for flag in flags)], key)
        if values and number(row, key) is not None:
            found.append(number(row, key) / statistics.median(values))
    return found


def short(value):
    return f'{value:.4g}' if abs(value) < 1000 else f'{value:.0f}'


def cell(values, scale=1.0):
    if not values:
        return '-'
    low, middle, high = (short(scale * value) for value in spread(values))
    return f'{middle} ({low} to {high})' if len(values) > 1 else middle


def same_text(rows):
    told = [row.get('same_text') for row in rows if row.get('same_text')]
    return '-' if not told else f'NO ({told.count("no")})' if 'no' in told else 'yes'


def table(rows, baseline=''):
    """The rows as a Markdown table."""
    keys = [*SETUP, 'strategy', *swept(rows), *loads(rows), 'kind']
    shown = [key for key in varying(rows, keys) if key != 'strategy']
    shown.insert(sum(key in SETUP for key in shown), 'strategy')
    figures = [('tokens/s', 'decode_tokens_per_s', 1), ('TTFT ms', 'ttft_s', 1000), ('ITL ms (median)', 'itl_p50_s', 1000),
               ('accepted', 'acceptance_rate', 1), ('tokens/run', 'tokens_per_target_run', 1)]
    if loads(rows):
        figures = [('tokens/s', 'decode_tokens_per_s', 1), *(
            (f'{name} ms ({share})', f'{key}_{share}_s', 1000) for name, key in (('first token', 'first_token'), ('ITL', 'itl'))
            for share in ('p50', 'p95', 'p99')), ('pauses', 'pauses', 1)]
    figures = [figure for figure in figures if any(numbers(rows, figure[1]))]
    heads = [*shown, 'runs', 'failed', *(name for name, _, _ in figures)]
    if baseline:
        heads.insert(len(shown) + 3, f'/ {baseline}')
    heads.append('same text')
    lines = [f'| {" | ".join(heads)} |', '|' + '---|' * len(heads)]
    for values, members in grouped(rows, shown).items():
        done = good(members)
        cells = [*values, len(members), len(members) - len(done), *(cell(numbers(done, key), scale) for _, key, scale in figures)]
        if baseline:
            cells.insert(len(shown) + 3, cell(ratios(done, rows, baseline)))
        lines.append(f'| {" | ".join(str(c) for c in [*cells, same_text(members)])} |')
    fixed = ', '.join(f'{key} {rows[0][key]}' for key in keys if key not in shown and rows[0][key])
    repeats = len({row['repeat'] for row in rows})
    note = (f'{fixed}; {counted(len({row["prompt"] for row in rows}), "prompt")}, {counted(repeats, "repeat")}. '
            'Median (quartiles; of fewer than four runs: range).')
    if baseline:
        note += f' "/ {baseline}": ratio of tokens/s within the same repeat, prompt and cluster.'
    return '\n'.join([note, '', *lines, *failures(rows)]) + '\n'


def counted(count, noun):
    return f'{count} {noun}' + ('' if count == 1 else 's')


def failures(rows):
    counts = collections.Counter(row['error'] for row in rows if row['error'])
    return ['', 'Failures:', '', *(f'- {count} × {error}' for error, count in counts.most_common())] if counts else []
