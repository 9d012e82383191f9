"""The layer split of a job over fewer machines: those that are left keep the proportions of their shares."""


def layers_of(rank):
    """How many: "3-7" are five."""
    first, _, last = rank.get('layers', '').partition('-')
    return int(last or first) - int(first) + 1 if first else 0


def remaining(ranks, left):
    """(order, split) for the ranks whose numbers are in `left`. `ranks`: of a `ready`. `order`: their numbers, those with layers of the
    target first. `split`: the --layer-split for them; None if that must be found anew, as a rank that did nothing is needed now."""
    ranks = [rank for rank in ranks if rank['rank'] in left]
    stages = {}
    for rank in ranks:
        if rank['role'] in ('head', 'stage'):
            stages.setdefault(rank['layers'], []).append(rank)
    drafters = [rank for rank in ranks if rank['role'] == 'drafter']
    order = [rank['rank'] for its in stages.values() for rank in its] + [rank['rank'] for rank in drafters]
    if not stages or len(order) < len(ranks):
        return sorted(left), None
    split = ','.join('+'.join(f'{layers_of(rank) * rank["share"]:.4f}' for rank in its) for its in stages.values())
    return order, split + '/1' * len(drafters)
