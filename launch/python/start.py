"""The beginning of every script, before its other imports: Ctrl-C, SIGTERM and a closed terminal end it without a traceback, until
`interrupt.run` can clean up; and its modules are found, here and in launch/."""
import os
import signal
import sys

LAUNCH = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
sys.path.insert(0, LAUNCH)

if os.path.dirname(os.path.realpath(sys.argv[0])) == LAUNCH:  # a script, not a test that imports one
    for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
        if signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
            signal.signal(number, lambda *_: os._exit(130))
