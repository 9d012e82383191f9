"""Shell scripts on the machines of a cluster, several at once, over ssh; on this machine itself without it."""
import concurrent.futures
import subprocess

from common.progress import Progress

from . import hostfile

MOST_AT_ONCE = 32


class Answer:
    """`code`: as ssh gives it; 255: ssh itself failed; None: it took too long."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err


# For ssh: it ends within six seconds if the machine is lost.
NOTICES_LOSS = '-o', 'ServerAliveInterval=2', '-o', 'ServerAliveCountMax=3'


def command_for(host, config, words, options=()):
    if host.is_here:
        return words
    if host.by_srun:
        return ['srun', '--overlap', '--quiet', '--nodes=1', '--ntasks=1', f'--nodelist={host.name}', *words]
    return ['ssh', '-T', *hostfile.config_words(config), *options, host.name, *words]


def run(host, config, script, limit_s, data=None, options=()):
    """Runs a script for sh; or, with `data` (bytes) for its standard input, a command line. `limit_s`: None: none; `options`: of ssh."""
    words = ['sh', '-s'] if data is None else ['sh', '-c', script] if host.is_here else [script]
    try:
        done = subprocess.run(command_for(host, config, words, options), input=script.encode() if data is None else data,
                              capture_output=True, timeout=limit_s)
    except subprocess.TimeoutExpired as late:
        return Answer(None, (late.stdout or b'').decode(errors='replace'), (late.stderr or b'').decode(errors='replace'))
    return Answer(done.returncode, done.stdout.decode(errors='replace'), done.stderr.decode(errors='replace'))


def each(hosts, function, what=''):
    """[function(host)], all at once; a bar on a terminal shows how many are done."""
    with concurrent.futures.ThreadPoolExecutor(MOST_AT_ONCE) as pool:
        futures = [pool.submit(function, host) for host in hosts]
        progress = Progress(len(futures))
        try:
            if what and futures:
                progress.show(0, what)
            for number, _ in enumerate(concurrent.futures.as_completed(futures), 1):
                if what:
                    progress.show(number, what)
            return [future.result() for future in futures]
        except KeyboardInterrupt:
            progress.line('ending, when what has begun has ended')
            raise
        finally:
            if what:
                progress.clear()
