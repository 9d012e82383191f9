"""Man pages, written from what --help prints."""


def escaped(text):
    """Text for roff, where a backslash, and a dot or a quote at the beginning of a line, mean something else."""
    text = text.replace('\\', '\\e').replace('-', '\\-')
    return '\\&' + text if text.startswith(('.', "'")) else text


def paragraphs(lines):
    """Indented lines are examples, which keep their line breaks."""
    example = False
    for line in lines:
        if line.startswith('  ') != example:
            example = not example
            yield '.PP\n.RS 4\n.nf' if example else '.fi\n.RE'
        yield escaped(line.strip() if example else line) or '.PP'
    if example:
        yield '.fi\n.RE'


def bold(words):
    return f'\\fB{escaped(words)}\\fR'


def listed(flags):
    for flag in flags:
        argument = f' \\fI{escaped(flag.argument)}\\fR' if flag.argument else ''
        yield f'.TP\n{", ".join(map(bold, flag.names))}{argument}\n{escaped(flag.text) or chr(92) + "&"}'


def section(title, lines):
    return '\n'.join([f'.SH {title}', *lines])


def name_of(page):
    """The name of its man page."""
    return page.name.replace(' ', '-')


def page_text(page, version, more, others):
    """`more`: further sections, {title: lines}. `others`: names of man pages to see also."""
    parts = [f'.TH "{name_of(page).upper()}" "1" "" "yamata {version}" "Yamata"',
             section('NAME', [f'{escaped(name_of(page))} \\- {escaped(page.summary)}']),
             section('SYNOPSIS', [escaped(page.usage or f'{page.name} [ARGUMENT ...]')]),
             section('DESCRIPTION', paragraphs(page.about))]
    if page.groups:
        parts.append('.SH OPTIONS')
    for title, flags in page.groups:
        parts += [f'.SS "{escaped(title.removesuffix(" options").capitalize())}"', *listed(flags)]
    parts += [section(title, lines) for title, lines in more.items()]
    if others:
        parts.append(section('SEE ALSO', [',\n'.join(f'{bold(other)}(1)' for other in others)]))
    return '\n'.join(parts).replace('.PP\n.PP\n', '.PP\n') + '\n'
