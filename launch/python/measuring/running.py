"""Executes one run: starts the command, ends it and all its processes at the deadline, and makes a row from its results."""
import ctypes
import datetime
import hashlib
import json
import os
import pathlib
import platform
import re
import shlex
import signal
import subprocess
import time

from .failure import cause
from common import as_root
from common.files import write_whole

GRACE_S = 10.0  # between the request to end and the kill: an emulated cluster must be removed in that time
KEPT_OUT = {'text', 'token_ids', 'per_rank'}


def end_with_parent():
    """Called in the child: if the runner is killed, the command ends, too, so that it cannot disturb the next measurement."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def members(session):
    """The running processes of a session. mpirun gives each rank a process group, but all stay in the session."""
    found = []
    for entry in pathlib.Path('/proc').iterdir():
        if not entry.name.isdigit():
            continue
        try:
            state, _, _, sid = (entry / 'stat').read_text().rpartition(')')[2].split()[:4]
        except (OSError, ValueError):
            continue
        if int(sid) == session and state != 'Z':
            found.append(int(entry.name))
    return found


def end(process):
    """Ends a command and all its processes: first by a request, after some time by a kill."""
    for number, patience in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, GRACE_S)):
        last = time.monotonic() + patience
        for pid in members(process.pid) if number == signal.SIGKILL else [-process.pid]:
            try:
                os.kill(pid, number)
            except OSError:
                pass
        while time.monotonic() < last:
            process.poll()
            if not members(process.pid):
                break
            time.sleep(0.02)
    process.wait()


def execute(command, out, err, deadline_s):
    """(error or '', wall seconds) of a command; its outputs go to the files `out` and `err`."""
    begin = time.monotonic()
    with open(out, 'wb') as stdout, open(err, 'wb') as stderr:
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, env=as_root.environment(),
                                       start_new_session=True, preexec_fn=end_with_parent)
        except OSError as error:
            return f'cannot start {command[0]}: {error.strerror}', 0.0
        try:
            code = process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            end(process)
            return f'killed at its deadline of {deadline_s:g} s', time.monotonic() - begin
        except BaseException:
            end(process)
            raise
    wall_s = time.monotonic() - begin
    if members(process.pid):
        end(process)
    return failure(code, err), wall_s


def failure(code, err):
    """The error of a failed command, with the line that names its cause."""
    if code == 0:
        return ''
    said = cause(err.read_text(errors='replace'))
    if not said:  # perhaps because the disk is full, which is then no fault of the run: Problem
        said = 'no message'
        write_whole(err, f'{said}\n'.encode())
    return (f'signal {-code}: ' if code < 0 else f'exit code {code}: ') + said[:300]


def json_figures(path, configuration):
    """Every scalar of the JSON, and derived figures: memory, busy share and a digest of the text."""
    result = json.loads(path.read_text())
    row = {(f'json_{key}' if key in configuration else key): value for key, value in result.items()
           if key not in KEPT_OUT and isinstance(value, (str, int, float, bool))}
    if 'token_ids' in result:
        row['token_ids_sha256'] = hashlib.sha256(json.dumps(result['token_ids']).encode()).hexdigest()[:16]
    ranks = result.get('per_rank', [])
    for key in ('rss_bytes', 'mapped_bytes'):
        values = [rank[key] for rank in ranks if key in rank]
        if values:
            row |= {f'{key}_max': max(values), f'{key}_per_rank': ';'.join(map(str, values))}
    shares = [rank['busy_s'] / (rank['busy_s'] + rank['wait_s']) for rank in ranks if rank.get('busy_s', 0) + rank.get('wait_s', 0) > 0]
    if shares:
        row |= {'busy_share_mean': round(sum(shares) / len(shares), 4), 'busy_share_per_rank': ';'.join(f'{share:.4f}' for share in shares)}
    return row


def text_figures(run, text):
    """Figures found by the program's regular expressions; the last match counts. Raises LookupError if there is none."""
    row = {}
    for key, expression in [('decode_tokens_per_s', run.tokens_per_s), *run.figures]:
        if expression is None:
            continue
        found = list(re.finditer(expression, text))
        if not found:
            raise LookupError(f'its output has nothing that matches {expression!r} ({key})')
        row[key] = float(found[-1][1])
    return row


def figures(run, json_path, out, err):
    """(figures, error or '') of a finished run."""
    row = {}
    try:
        if json_path.exists():
            row |= json_figures(json_path, run.columns)
        row |= text_figures(run, out.read_text(errors='replace') + err.read_text(errors='replace'))
    except (ValueError, LookupError, AttributeError, TypeError) as error:
        return row, f'its figures cannot be read: {error}'
    return row, '' if 'decode_tokens_per_s' in row else 'it wrote no decode_tokens_per_s, neither as JSON nor by a regular expression'


class Machine:
    """The columns that describe the machine and the program of the measurement."""

    def __init__(self, yamata):
        cpu = re.search(r'model name\s*: (.*)', pathlib.Path('/proc/cpuinfo').read_text())
        try:
            version = subprocess.run([yamata, '--version'], capture_output=True, text=True, check=False).stdout.split()
        except OSError:  # other programs are measured
            version = []
        self.columns = {'yamata_version': version[1] if len(version) > 1 else '',
                        'yamata_sha256': hashlib.sha256(pathlib.Path(yamata).read_bytes()).hexdigest()[:16] if version else '',
                        'cpu': cpu[1] if cpu else platform.machine(), 'cores': os.cpu_count(), 'kernel': platform.release()}


def measure(run, folder, machine, prompt):
    """Executes a run with the text of its prompt; returns its row, without same_text. None: the prompt cannot be made, so the run fails."""
    stem = folder / 'runs' / run.id
    json_path, out, err, prompt_file = (stem.with_suffix(suffix) for suffix in ('.json', '.out', '.err', '.txt'))
    json_path.unlink(missing_ok=True)
    write_whole(prompt_file, (prompt or '').encode())
    paths = {'{json}': str(json_path), '{prompt_file}': str(prompt_file), '{results}': str(folder / 'commands')}
    command = [re.sub(r'\{json\}|\{prompt_file\}|\{results\}', lambda found: paths[found[0]], word) for word in run.command]
    began = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec='seconds')
    load = os.getloadavg()[0]
    error, wall_s = execute(command, out, err, run.deadline_s) if prompt is not None else (f'{run.prompt.after} has no answer', 0.0)
    row, missing = ({}, '') if error else figures(run, json_path, out, err)
    if not run.columns['nodes'] and 'ranks' in row:
        run.columns['nodes'] = row['ranks']
    return {'run': run.id, **run.columns, 'error': error or missing, 'same_text': '', 'wall_s': f'{wall_s:.3f}', **row, **machine.columns,
            'load_before': f'{load:.2f}', 'date': began, 'fingerprint': run.fingerprint, 'command': shlex.join(command)}
