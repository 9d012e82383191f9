"""The log of requests, a JSON object a line, without any text of them."""
import datetime
import json
import logging.handlers

from common.problem import Problem

FILE_BYTES, FILES = 16 << 20, 4


class NoLog:
    def write(self, request, seconds):
        pass


class RequestLog:
    """Four older files are kept, FILE.1 to FILE.4. Raises Problem if the file cannot be written."""

    def __init__(self, path):
        try:
            self.handler = logging.handlers.RotatingFileHandler(path, maxBytes=FILE_BYTES, backupCount=FILES, encoding='utf-8')
        except OSError as error:
            raise Problem(f'{path} cannot be written ({error.strerror}); choose another file with --log') from None

    def write(self, request, seconds):
        client = request.scope.get('client') or ('',)
        entry = {'time': datetime.datetime.now(datetime.timezone.utc).isoformat(timespec='milliseconds'), 'client': client[0],
                 'method': request.method, 'path': request.path[:200], 'status': request.status, 'seconds': round(seconds, 3),
                 **request.facts}
        self.handler.emit(logging.makeLogRecord({'msg': json.dumps(entry)}))


def log_of(path):
    return RequestLog(path) if path else NoLog()
