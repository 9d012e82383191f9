"""Named shapes, and whether a small model fits in a shape."""
SHAPES = {'1.1b': dict(dim=2048, layers=22, heads=32, kv_heads=4, ffn=5632),
          '0.3b': dict(dim=1024, layers=22, heads=16, kv_heads=4, ffn=2816),
          '0.1b': dict(dim=768, layers=12, heads=12, kv_heads=2, ffn=2048), '70m': dict(dim=1024, layers=5, heads=16, kv_heads=2, ffn=2816)}


def flag(key, value):
    return f'--{key.replace("_", "-")} {value}'


def misfit(small, target, head):
    """Why a model of shape `small`, whose head size is `head`, does not fit in `target`; empty: it does. Draft heads have no layers, and
    some have no attention."""
    for key, least in small.items():
        if target[key] < least:
            return f'the shape has {flag(key, target[key])}, but the file to embed needs at least {least}'
    if target['dim'] != target['heads'] * head:
        return (f'the shape has {flag("dim", target["dim"])}, which is not its number of heads, {target["heads"]}, times the head size '
                f'{head} of the file to embed')
    if target['heads'] % target['kv_heads']:
        return f'the shape has {flag("heads", target["heads"])}, which is no multiple of {flag("kv_heads", target["kv_heads"])}'
    if small['kv_heads'] and target['heads'] // target['kv_heads'] < small['heads'] // small['kv_heads']:
        return f'the shape has {target["heads"] // target["kv_heads"]} heads per key/value head, but the file to embed needs at least ' \
               f'{small["heads"] // small["kv_heads"]}'
    return ''


def enlarged(small, target, head):
    """The smallest shape that is no smaller than `target` and in which the model fits; None: there is none."""
    large = {key: max(value, small.get(key, 0)) for key, value in target.items()}
    large['heads'] = max(large['heads'], -(-large['dim'] // head))
    large['dim'] = large['heads'] * head
    tried = ({**large, 'kv_heads': number} for number in range(large['kv_heads'], large['heads'] + 1))
    return next((shape for shape in tried if not misfit(small, shape, head)), None)


def refusal(small, target, head):
    """Why a model does not fit in a shape, and what to give instead; empty: it fits."""
    why = misfit(small, target, head)
    if not why:
        return ''
    large = enlarged(small, target, head)
    ways = ['change it with ' + ' '.join(flag(key, value) for key, value in large.items() if value != target[key])] if large else []
    if named := [name for name, shape in SHAPES.items() if not misfit(small, shape, head)]:
        ways.append('give --shape ' + ' or '.join(named))
    return f'{why}; {", or ".join(ways) or "give another with --dim, --layers, --heads, --kv-heads and --ffn (see --help)"}'
