"""Renders chat templates, which come from strangers' files, in processes with little to lose. A process of this module reads from the
socket that is its first argument. For each socket that comes over it, it forks a child for a template, which compiles it, and which forks
a child with limits of time and memory for each rendering. Answers are (length, JSON): {"text": …} or {"error": …}; a child that reached
a limit answers nothing."""
import gc
import json
import os
import resource
import signal
import socket
import struct
import sys

LENGTH = struct.Struct('<I')


def send(connection, value):
    data = json.dumps(value).encode()
    connection.sendall(LENGTH.pack(len(data)) + data)


def receive(connection):
    """Raises EOFError."""
    def exactly(count):
        pieces = []
        while count:
            piece = connection.recv(min(count, 1 << 20))
            if not piece:
                raise EOFError
            pieces.append(piece)
            count -= len(piece)
        return b''.join(pieces)
    return json.loads(exactly(*LENGTH.unpack(exactly(LENGTH.size))))


def limit(seconds, memory_bytes):
    """For this process: processor time (whole seconds and a timer for parts), memory; no files, no core."""
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, resource.getrlimit(resource.RLIMIT_CPU)[1]))
    signal.setitimer(signal.ITIMER_PROF, seconds)
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def lift_time_limit():
    signal.setitimer(signal.ITIMER_PROF, 0)
    most = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (most, most))


def child(control, taken, work):
    """Waits for a socket that comes over `control`, says over the pipe `taken` that it has it, and works. Never returns."""
    try:
        data, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not data:
            os._exit(0)
        os.write(taken, b'.')
        os.close(taken)
        control.close()
        work(socket.socket(fileno=descriptors[0]))
    except MemoryError:
        os._exit(2)
    except (EOFError, OSError):
        os._exit(1)
    finally:
        os._exit(0)


def each_socket(control, work):
    """Runs work(socket) in a child of its own for each socket that comes over `control`. A child waits for the next one in advance, since a
    fork takes longer than a rendering."""
    gc.collect()
    gc.freeze()  # children need not copy what they do not change
    while True:
        taken, write = os.pipe()
        if not os.fork():
            os.close(taken)
            child(control, write, work)
        os.close(write)
        more = os.read(taken, 1)
        os.close(taken)
        if not more:
            return


def outcome(function):
    """What the function returns, or its error as the protocol has it."""
    try:
        return {'text': function()}
    except MemoryError:
        return {'error': 'it needs too much memory'}
    except RecursionError:
        return {'error': 'it is nested too deeply'}
    except Exception as error:  # whatever a stranger's template does
        return {'error': f'{type(error).__name__}: {str(error)[:500]}'}


def serve_template(connection):
    """A child for one template."""
    from .template_environment import environment
    wanted = receive(connection)
    seconds, memory_bytes = wanted['seconds'], wanted['memory_bytes']
    made = []

    def compiled():
        made.append(environment().from_string(wanted['template']))
        return ''
    limit(seconds, memory_bytes)
    answer = outcome(compiled)
    lift_time_limit()  # many renderings take long together
    send(connection, answer)
    if made:
        each_socket(connection, lambda its: render(its, made[0], seconds, memory_bytes))


def render(connection, template, seconds, memory_bytes):
    from .template_environment import as_seen
    limit(seconds, memory_bytes)
    context = receive(connection)
    send(connection, outcome(lambda: template.render(**as_seen(context))))


def main():
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children are not waited for
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    from . import template_environment  # noqa: F401  # children have it from the beginning
    each_socket(socket.socket(fileno=int(sys.argv[1])), serve_template)


if __name__ == '__main__':
    main()
