"""What the JSON of a run says about its layout: which ranks take part, what was expected, and which other layouts were considered."""
import re


def participants(result):
    """{rank: role} of the ranks that have a part in a job."""
    return {rank['rank']: rank['role'] for rank in result['per_rank'] if rank['role'] != 'idle'}


def drafters(roles):
    """The ranks that only draft. `roles`: {rank: role}."""
    return {rank for rank, role in roles.items() if role == 'drafter'}


class Choice:
    """A layout that Yamata has chosen: its hosts as in the plan, its strategy, and the expected tokens/s."""

    def __init__(self, line):
        """`line`: `layout_choice` in the JSON. Raises ValueError for another."""
        match = re.match(r'(.+?), (\w+): ([0-9.]+) tokens/s expected', line)
        if not match:
            raise ValueError(f"'{line}' is no choice of a layout")
        self.hosts, self.strategy, self.expected = match[1].removesuffix(' alone'), match[2], float(match[3])

    def matches(self, layout):
        """Whether a layout of the plan is this one. The line of a host alone does not say whether it drafts; the speed does."""
        alone = set(re.split('[,+/]', layout['hosts'])) == {self.hosts}
        near = abs(layout['decode_tokens_per_s'] - self.expected) < 0.01
        return near and layout['strategy'] == self.strategy and (alone or layout['hosts'] == self.hosts)


def describe(layout):
    return f"{layout['hosts']} {layout['strategy']}"


def chosen_layout(result):
    """The chosen layout, as in the plan; None if the flags of the run determined it."""
    if 'layout_choice' not in result:
        return None
    choice = Choice(result['layout_choice'])
    return next(layout for layout in result['plan']['layouts'] if choice.matches(layout))


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
