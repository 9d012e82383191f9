"""A module that gets Ctrl-C while it is imported, and turns the exception into another, as large libraries do."""

SOURCE = '''import os, signal
try:
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1000): pass
except BaseException as interrupt:
    raise ImportError('cannot be initialized') from interrupt
'''
