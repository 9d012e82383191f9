"""Steps of a check within a limit of time: commands, what they said, figures against their goals, and the report of all."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

from common.files import refuse_foreign

PATIENCE = float(os.environ.get('YAMATA_PATIENCE', 1))  # sanitized programs take several times as long
LEAST_S = 5  # a step with less time left is not begun


def kill(process):
    """With everything that it has started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.communicate()


def check_reports(name, out):
    """Raises Problem if a report in the folder `out` would replace a file that is none."""
    for ending, own in (('json', rb'"seconds": \d+,\s+"figures": '), ('md', rb'\n\| of \| (figure|system) \| ')):
        refuse_foreign(pathlib.Path(out) / f'{name}.{ending}', own, f'a report of {name}', 'choose another folder with --out')


class Steps:
    def __init__(self, name, folder, goals, at_most, minutes):
        """`goals`: of figures by their names; those in `at_most` must not be higher, the others not lower."""
        self.name, self.folder, self.goals, self.at_most = name, folder, goals, at_most
        self.rows, self.figures, self.reasons = [], [], {}
        self.began = time.monotonic()
        self.end = self.began + 60 * minutes * PATIENCE

    def seconds(self):
        return time.monotonic() - self.began

    def left_s(self):
        return self.end - time.monotonic()

    def tell(self, text):
        print(f'{self.name}: {self.seconds():4.0f} s  {text}', file=sys.stderr, flush=True)

    def left_out(self, step, why):
        self.tell(f'{step}: left out, {why}')
        self.rows.append({'step': step, 'exit_code': None, 'seconds': 0, 'output': why})

    def step(self, name, command, limit_s, **environment):
        """Runs a command and records it as a row. Returns its standard output, or None if it failed or had no time."""
        limit_s = min(limit_s * PATIENCE, self.left_s())
        if limit_s < LEAST_S:
            self.left_out(name, 'no time left')
            return None
        self.tell(name)
        began = time.monotonic()
        code, out, text = self.run(command, limit_s, environment)
        if code == 124 and self.left_s() <= 0:
            self.left_out(name, 'no time left')
            return None
        self.rows.append({'step': name, 'exit_code': code, 'seconds': round(time.monotonic() - began, 1),
                          'output': text[-4000:] if code else ''})
        if code:
            self.tell(f'{name}: exit {code}')
        return out if code == 0 else None

    def run(self, command, limit_s, environment):
        """The exit code, the standard output, and what there is to read if it failed."""
        try:
            process = subprocess.Popen([str(part) for part in command], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       text=True, start_new_session=True, env=dict(os.environ, **environment))
        except OSError as error:
            return 127, '', str(error)
        try:
            out, errors = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            kill(process)
            return 124, '', f'longer than {limit_s:.0f} s'
        except BaseException:
            kill(process)
            raise
        return process.returncode, out, out + errors

    def build(self, name, command, limit_s):
        """A step whose progress ninja tells: [7/250]. Every tenth is printed."""
        limit_s = min(limit_s, self.left_s())
        self.tell(name)
        began, tenth, lines = time.monotonic(), 0, []
        process = subprocess.Popen([str(part) for part in command], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True, start_new_session=True)
        try:
            for line in process.stdout:
                lines.append(line)
                if time.monotonic() - began > limit_s:
                    break
                if (found := re.match(r'\[(\d+)/(\d+)\]', line)) and 10 * int(found[1]) // int(found[2]) > tenth:
                    tenth = 10 * int(found[1]) // int(found[2])
                    self.tell(f'{name}: {found[1]} of {found[2]}')
            late = time.monotonic() - began > limit_s
        except BaseException:
            late = True
            raise
        finally:
            kill(process) if late else process.wait()
            process.stdout.close()
        code = 124 if late else process.returncode
        why = f'longer than {limit_s:.0f} s; run it again, which goes on from here' if late else ''.join(lines)[-4000:]
        self.rows.append({'step': name, 'exit_code': code, 'seconds': round(time.monotonic() - began, 1), 'output': why if code else ''})
        return code == 0

    def say(self, name, right):
        self.rows.append({'step': name, 'exit_code': int(not right), 'seconds': 0, 'output': ''})

    def figure(self, name, what, value, goal=None):
        """Records a measured figure, and whether it reaches its goal."""
        goal = goal or self.goals[what]
        reached = value <= goal if what in self.at_most else value >= goal
        self.figures.append({'of': name, 'figure': what, 'value': round(value, 3), 'goal': goal, 'reached': reached})

    def not_measured(self, what, why):
        self.reasons[what] = why

    def wrong(self):
        return any(row['exit_code'] for row in self.rows)

    def unmeasured(self):
        """Why each figure that has a goal is missing."""
        measured = {figure['figure'] for figure in self.figures}
        return {what: self.reasons.get(what, 'a step before it failed or had no time') for what in self.goals if what not in measured}

    def table(self, unmeasured):
        """The figures, as lines of Markdown."""
        lines = ['| of | figure | value | goal | reached |', '|---|---|---|---|---|']
        lines += [f'| {f["of"]} | {f["figure"]} | {f["value"]} | {f["goal"]} | {"yes" if f["reached"] else "no"} |' for f in self.figures]
        return lines + [f'| – | {what} | – | {self.goals[what]} | not measured: {why} |' for what, why in unmeasured.items()]

    def write(self, out, title, facts):
        """NAME.json and NAME.md; prints the latter, and what the steps said that failed."""
        unmeasured = self.unmeasured()
        report = {**facts, 'seconds': round(self.seconds()), 'figures': self.figures, 'not_measured': unmeasured, 'steps': self.rows}
        out = pathlib.Path(out)
        out.mkdir(parents=True, exist_ok=True)
        (out / f'{self.name}.json').write_text(json.dumps(report, indent=1) + '\n')
        lines = [title, '', *self.table(unmeasured)]
        lines += ['', '| step | result | seconds |', '|---|---|---|']
        for row in self.rows:
            result = f'left out: {row["output"]}' if row['exit_code'] is None else f'exit {row["exit_code"]}' if row['exit_code'] else 'ok'
            lines.append(f'| {row["step"]} | {result} | {row["seconds"]} |')
        (out / f'{self.name}.md').write_text('\n'.join([*lines, '']))
        print((out / f'{self.name}.md').read_text())
        for row in self.rows:
            if row['exit_code']:
                print(f'{self.name}: {row["step"]}: exit {row["exit_code"]}\n{row["output"]}', file=sys.stderr)
