"""What the JSON of a run says about its layout: which ranks take part, what was expected, and which other layouts were considered."""
import re


def participants(result):
    """{rank: role} of the ranks that have a part in a job."""
    return {rank['rank']: rank['role'] for rank in result['per_rank'] if rank['role'] != 'idle'}


def drafters(roles):
    """The ranks that only draft. `roles`: {rank: role}."""
    return {rank for rank, role in roles.items() if role == 'drafter'}


def describe(layout):
    return f"{layout['hosts']} {layout['strategy']}"


def chosen_layout(result):
    """The chosen layout, as in the plan; None if the flags of the run determined it."""
    plan = result.get('plan')
    return plan and plan['layouts'][plan['chosen']]


def layouts_by_hand(result, count):
    """(chosen, others): the chosen layout, and those `count` that the plan expects most of, without it."""
    fitting = [layout for layout in result['plan']['layouts'] if layout['fits']]
    chosen = chosen_layout(result)
    return chosen, [layout for layout in fitting[:count] if layout is not chosen]


def command_of(layout, draft):
    """(names of the hosts in the order of their ranks, flags): how to start a layout of a plan by hand."""
    target, _, drafter = layout['hosts'].partition('/')
    names = re.split('[,+]', target)
    own = bool(drafter) and not layout['draft_on_head']
    names += [drafter] * own
    flags = ['--strategy', layout['strategy'], *(['-md', str(draft)] if drafter else [])]
    if len(names) > 1:
        flags += ['--layer-split', layout['layer_split'], *(['--no-async'] if layout['draft_on_head'] else [])]
    return names, flags
