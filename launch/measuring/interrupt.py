"""Ctrl-C in a script, or a terminal that is closed: one line and exit code 130."""
import contextlib
import os
import signal
import sys


def say():
    """Writes the line that says so, over a progress bar if there is one."""
    line = f'{os.path.basename(sys.argv[0])}: interrupted\n'
    with contextlib.suppress(OSError):  # the terminal may be gone
        os.write(2, ('\r\x1b[K' if os.isatty(2) else '').encode() + line.encode())


def hang_up(*_):
    """Interrupts once: a terminal that is closed may say so several times."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    raise KeyboardInterrupt


def run(main):
    """Ends the process with the exit code of main(), which is interrupted by an exception, so that it can clean up."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as under nohup
        signal.signal(signal.SIGHUP, hang_up)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        say()
        sys.exit(130)


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
