"""The whole grid of a paper: the table [full] of an experiment's file, which launch/experiment --full adds to the file's own values."""
import os

from common.problem import Problem
from . import cuda
from .plan_values import as_list

VALUES = {'tokens', 'temperature', 'seed', 'repeats', 'deadline_s'}
TABLES = {'models', 'clusters', 'strategies', 'programs', 'prompts', 'commands', 'sweep', 'load'}

# Tables whose entries have flags: those that name a file.
FILE_FLAGS = {'commands': ('-f',), 'strategies': ('--heads', '--datastore', '-md')}


def settled(toml, full):
    """(the experiment without [full], what is left out of it). With `full`, the values of [full] replace those of the file, and the entries
    of its tables are added, or replace those of the same name. Of the added ones, those without their file (of a model, prompts, heads) or
    GPU are left out, and those that read what a command would have written that is left out; for each, a line says so. Raises Problem for
    what [full] cannot have."""
    given = toml.get('full', {})
    check(given)
    if not full:
        return {key: value for key, value in toml.items() if key != 'full'}, []
    if not given:
        raise Problem('there is no [full]; write what the whole grid adds, or leave --full out')
    whole = {key: value for key, value in toml.items() if key != 'full'}
    absent = absent_entries(given)
    for key, value in given.items():
        own = whole.get(key, {})
        whole[key] = value if key in VALUES else {
            **(own if isinstance(own, dict) else {}), **{name: entry for name, entry in value.items() if (key, name) not in absent}}
    return whole, [f'{key}.{name} is left out: {why}' for (key, name), why in absent.items()]


def absent_entries(given):
    """Why entries of the tables of [full] are left out, by table and name, in the order of the file."""
    entries = [(key, name, entry) for key, value in given.items() if key in TABLES for name, entry in value.items()]
    absent = {(key, name): f'{file} does not exist{source_of(entry)}'
              for key, name, entry in entries for file in files_of(key, entry) if not os.path.exists(file)}
    absent |= {(key, name): 'there is no NVIDIA GPU here' for key, name, entry in entries
               if any('cuda' in word for word in flags_of(key, entry)) and not cuda.has_gpu()}
    unwritten = {}
    for key, name, entry in sorted(entries, key=lambda one: one[0] != 'commands'):  # a command is after those that write what it reads
        words = flags_of(key, entry)
        if missing := next((word for word in words if word in unwritten), None):
            absent.setdefault((key, name), f'{missing} is of {unwritten[missing]}')
        if key == 'commands' and (key, name) in absent:
            written = [f'{{results}}/{name}.json', *(out for flag, out in zip(words, words[1:]) if flag == '--tree-out')]
            unwritten |= dict.fromkeys(written, f'commands.{name}')
    return {place: absent[place] for place in ((key, name) for key, name, _ in entries) if place in absent}


def check(given):
    if not isinstance(given, dict):
        raise Problem(f'full is {given!r}, not a table; write [full]')
    for key, value in given.items():
        if key not in VALUES | TABLES:
            raise Problem(f"full: '{key}' is not known; it may have {', '.join(sorted(VALUES | TABLES))}")
        if key in TABLES and not isinstance(value, dict):
            raise Problem(f'full: {key} is {value!r}, not a table; write [full.{key}]')


def flags_of(key, entry):
    """The words of a command or a strategy; empty: there are none."""
    words = entry.get('flags', []) if isinstance(entry, dict) else entry
    return words if key in FILE_FLAGS and isinstance(words, list) and all(isinstance(word, str) for word in words) else []


def files_of(key, entry):
    """The files that an entry needs: those of a model, of prompts, or those that its flags name."""
    if key in FILE_FLAGS:
        words = flags_of(key, entry)
        return [file for flag, file in zip(words, words[1:]) if flag in FILE_FLAGS[key]]
    keys = {'prompts': ('file',), 'models': ('target', 'draft')}.get(key, ()) if isinstance(entry, dict) else ()
    return [file for name in keys for file in as_list(entry.get(name)) if isinstance(file, str)]


def source_of(entry):
    return f'; get it from {entry["source"]}' if isinstance(entry, dict) and isinstance(entry.get('source'), str) else ''
