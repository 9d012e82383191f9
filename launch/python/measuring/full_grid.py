"""The whole grid of a paper: the table [full] of an experiment's file, which launch/experiment --full adds to the file's own values."""
import os

from common.problem import Problem

VALUES = {'tokens', 'temperature', 'seed', 'repeats', 'deadline_s'}
TABLES = {'models', 'clusters', 'strategies', 'programs', 'prompts', 'commands', 'sweep'}

FILE_FLAGS = {'commands': '-f', 'strategies': '--heads'}  # tables whose entries have flags: the flag that names a file


def settled(toml, full):
    """(the experiment without [full], what is left out of it). With `full`, the values of [full] replace those of the file, and the entries
    of its tables are added, or replace those of the same name. Of the added ones, prompts and commands without their file of prompts, and
    strategies without their heads, are left out; for each, a line says so. Raises Problem for what [full] cannot have."""
    given = toml.get('full', {})
    check(given)
    if not full:
        return {key: value for key, value in toml.items() if key != 'full'}, []
    if not given:
        raise Problem('there is no [full]; write what the whole grid adds, or leave --full out')
    whole, left_out = {key: value for key, value in toml.items() if key != 'full'}, []
    for key, value in given.items():
        if key in VALUES:
            whole[key] = value
            continue
        absent = {name: file for name, file in ((name, file_of(key, entry)) for name, entry in value.items())
                  if file and not os.path.exists(file)}
        left_out += [f'{key}.{name} is left out: {file} does not exist{source_of(value[name])}' for name, file in absent.items()]
        own = whole.get(key, {})
        whole[key] = {**(own if isinstance(own, dict) else {}), **{name: entry for name, entry in value.items() if name not in absent}}
    return whole, left_out


def check(given):
    if not isinstance(given, dict):
        raise Problem(f'full is {given!r}, not a table; write [full]')
    for key, value in given.items():
        if key not in VALUES | TABLES:
            raise Problem(f"full: '{key}' is not known; it may have {', '.join(sorted(VALUES | TABLES))}")
        if key in TABLES and not isinstance(value, dict):
            raise Problem(f'full: {key} is {value!r}, not a table; write [full.{key}]')


def file_of(key, entry):
    """The file of prompts that an entry reads, or of heads that a strategy does; empty: none."""
    if not isinstance(entry, dict):
        return ''
    if key == 'prompts':
        return entry['file'] if isinstance(entry.get('file'), str) else ''
    words = entry.get('flags', []) if key in FILE_FLAGS else []
    after = dict(zip(words, words[1:])) if isinstance(words, list) and all(isinstance(word, str) for word in words) else {}
    return after.get(FILE_FLAGS.get(key), '')


def source_of(entry):
    return f'; get it from {entry["source"]}' if isinstance(entry.get('source'), str) else ''
