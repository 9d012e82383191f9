"""What a program says about itself with --help, as data: in the formats of yamata, of argparse (scripts in Python), and of the
comment at the beginning of a shell script."""
import dataclasses
import re


@dataclasses.dataclass
class Flag:
    names: list  # such as ['-m', '--model']
    argument: str  # such as FILE; empty: it takes none
    text: str

    @property
    def takes_file(self):
        return self.argument.startswith(('FILE', 'FOLDER'))


@dataclasses.dataclass
class Page:
    """One command or script."""
    name: str  # as its user writes it, such as 'yamata run'
    about: list  # lines
    usage: str
    groups: list  # of (title, flags); operands are flags without a dash

    @property
    def summary(self):
        """The first sentence or clause, without a full stop."""
        text = ' '.join(self.about).strip()
        return re.split(r'[.;:](?:\s|$)', text, maxsplit=1)[0].replace(self.name.replace(' ', '-'), '').strip()

    @property
    def flags(self):
        return [flag for _, flags in self.groups for flag in flags if flag.names[0].startswith('-')]


def flag_of(head, text):
    """`head`: such as '-m, --model FILE', '-o FILE, --out FILE' or 'PROGRAM'."""
    names = re.findall(r'(?:^|, )(-[\w-]+)', head) or [head.strip()]
    argument = head.split(names[-1], 1)[1].strip() if head.startswith('-') else ''
    return Flag(names, argument, text)


def with_alias(flag):
    """yamata names the short form of a few flags at the beginning of their text: '-md: a draft model'."""
    alias = re.match(r'(-[a-z]{2,3})[:,] ', flag.text)
    if alias:
        flag.names.insert(0, alias[1])
        flag.text = flag.text[alias.end():]
    return flag


def usage_of(lines):
    """The lines of the usage, and the number of lines that they take."""
    count = next((i for i, line in enumerate(lines[1:], 1) if not line.startswith(' ')), len(lines))
    said = ' '.join([re.sub('^usage:', '', lines[0], flags=re.I), *lines[1:count]])
    return ' '.join(said.split()), count


def parse(name, text):
    """The page of a command, from what it prints with --help."""
    page = Page(name, [], '', [])
    lines, i = text.rstrip().split('\n'), 0
    while i < len(lines):
        line = lines[i]
        flag = re.match(r' {2,6}(-\S.*?)(?: {2,}(.*))?$', line) or page.groups and re.match(r' {2}(\S+)(?: {2,}(.*))?$', line)
        if re.match('usage:', line, re.I) and not page.usage:
            page.usage, count = usage_of(lines[i:])
            i += count
            continue
        if flag and page.usage:
            if not page.groups:
                page.groups.append(('options', []))
            page.groups[-1][1].append(flag_of(flag[1], flag[2] or ''))
        elif page.usage and re.fullmatch(r' ?[\w ,-]+:', line):
            page.groups.append((line.strip(' :'), []))
        elif page.groups and page.groups[-1][1] and line.startswith(' ' * 8):
            last = page.groups[-1][1][-1]
            last.text = f'{last.text.strip()} {line.strip()}'.strip()
        elif line.strip() or not page.groups:
            page.about.append(line)
        i += 1
    page.groups = [(title, [with_alias(flag) for flag in flags]) for title, flags in page.groups if flags]
    page.about = '\n'.join(page.about).strip('\n').split('\n')
    return page


def commands_of(text):
    """{command: what it does}, from `yamata --help`."""
    listed = text.partition('\ncommands\n')[2].partition('\n\n')[0]
    return {name: what for name, what in re.findall(r'^ {2}([a-z]\w*) +(.*)$', listed, re.M)}
