"""How a script ends. Ctrl-C, or a terminal that is closed: one line and exit code 130. A file that cannot be read or written, or too little
memory: one line and exit code 2."""
import contextlib
import os
import pathlib
import signal
import sys
import tempfile


def say():
    """Writes the line that says so, over a progress bar if there is one."""
    line = f'{os.path.basename(sys.argv[0])}: interrupted\n'
    with contextlib.suppress(OSError):  # the terminal may be gone
        os.write(2, ('\r\x1b[K' if os.isatty(2) else '').encode() + line.encode())


def hang_up(*_):
    """Interrupts once: a terminal that is closed may say so several times."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    raise KeyboardInterrupt


def refuse(cause):
    """Ends the process with a line. Standard output is dropped: Python would try to write the rest of it, and fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    with contextlib.suppress(OSError):
        print(f'{os.path.basename(sys.argv[0])}: {cause}', file=sys.stderr)
    sys.exit(2)


def end_with(main):
    """Ends the process with the exit code of main(), after its output is written."""
    try:
        try:
            code = main()
        except SystemExit as end:
            code = end.code
        if sys.stdout:
            sys.stdout.flush()
    except ProcessLookupError:  # a mistake of the script, no matter of files
        raise
    except OSError as error:
        refuse(f'{error.filename or "standard output"}: {error.strerror}; check the path, its permissions and the free space')
    except MemoryError:
        refuse('there is not enough memory; free some, or raise ulimit -v')
    sys.exit(code)


def run(main):
    """Ends the process with the exit code of main(), which is interrupted by an exception, so that it can clean up."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as under nohup
        signal.signal(signal.SIGHUP, hang_up)
    try:
        end_with(main)
    except KeyboardInterrupt:
        say()
        sys.exit(130)


SIGNALS = signal.SIGINT, signal.SIGTERM, signal.SIGHUP


@contextlib.contextmanager
def postponed():
    """Interruptions wait until the end of the block: a file is either as before it or as after it, and a process that is started is known.
    For the main thread. Processes that are started in the block can be interrupted."""
    came, before = [], {}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        for number in SIGNALS:
            if signal.getsignal(number) != signal.SIG_IGN:
                before[number] = signal.signal(number, lambda number, _: came.append(number))
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in came:
            signal.raise_signal(number)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


@contextlib.contextmanager
def temporary_folder(prefix='yamata-'):
    """The path of a folder that is removed at the end of the block, also if an interruption comes while it is made."""
    with postponed():
        folder = tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True)
    with folder:
        yield pathlib.Path(folder.name)


def end_at_once(*_):
    say()
    os._exit(130)


@contextlib.contextmanager
def ends_at_once():
    """Ctrl-C ends the process without an exception: a module that is being imported may turn one into another."""
    before = signal.signal(signal.SIGINT, end_at_once)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
