"""The main part of launch/serve, after its flags are read and its packages are there: starts the engine, serves, ends."""
import asyncio
import os
import pathlib
import signal

from common.problem import Problem

from . import admission, connections, job, journal, options, page, plans, start_checks, terminal
from .app import App
from .metrics import Metrics
from .request_log import log_of
from .security import Security
from .server import Server
from .templates import CHATML, Renderer, TemplateError

SIGNALS = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
LOST = 3  # exit code


class Service:
    """One server, from its start to its end."""

    def __init__(self, flags, engine_words):
        self.flags, self.terminal = flags, terminal.Terminal()
        start_checks.refuse_launchers(os.environ)
        start_checks.require_file(flags.model, 'a GGUF file')
        self.keys = start_checks.keys(flags.api_key_file)
        self.template = start_checks.template(flags.chat_template_file)
        self.log = log_of(flags.log)
        self.listener = start_checks.listener(flags.host, flags.port, bool(self.keys))
        self.address = terminal.address_of(self.listener)
        self.engine = job.Job(plans.plan_of(flags, ['-m', flags.model, *engine_words]), self.changed, self.terminal.say)
        metrics = Metrics()
        self.queue = admission.Queue(self.engine, flags.queue, metrics)
        if flags.state:
            self.queue.journal = journal.Journal(flags.state, start_checks.identity(flags.model))
        self.engine.progress, self.engine.idle = metrics.tokens, self.queue.idle
        self.server = Server(self.engine, self.queue, metrics, flags.alias or pathlib.Path(flags.model).stem, flags.model,
                             options.defaults_of(flags), 'yamata')
        security = Security(self.keys, start_checks.bound_names(flags.host, flags.allow_host), flags.cors_origin)
        self.app = App(self.server.routes(page.Page()), security, metrics, self.log, self.terminal.say)
        self.interrupts, self.served, self.tasks = 0, False, set()

    def changed(self, its):
        """The engine has a new state, or has loaded more."""
        if its.state == 'loading':
            self.terminal.loading(its.share)
        elif its.state == 'ready':
            go_on = self.queue.drain if self.queue.closed else self.queue.advance
            go_on() if self.served else self.start(self.begin_serving())
        elif its.state == 'lost':
            self.queue.lose(its.end_kind, its.why)

    def start(self, coroutine):
        task = asyncio.get_running_loop().create_task(coroutine)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def begin_serving(self):
        source = self.template if self.template is not None else self.engine.ready.get('template') or ''
        if not source:
            self.terminal.say('warning: the model has no chat template; ChatML is used (--chat-template-file names another)')
        try:
            self.server.set_template(await self.renderer.template(source or CHATML))
        except TemplateError as error:
            self.terminal.say(f'serve: the chat template cannot be used: {error}; name another with --chat-template-file')
            return self.engine.lose('its chat template cannot be used')
        self.served = True
        self.terminal.say(terminal.greeting(self.server, self.address, self.flags.api_key_file))

    def interrupt(self):
        self.interrupts += 1
        recovers = self.engine.state == 'recovering' and not self.queue.idle()
        if self.interrupts == 1 and (self.queue.running or recovers):
            self.terminal.say('open requests finish; Ctrl-C again cancels them')
        if self.interrupts == 1 and self.engine.state in ('ready', 'stopping'):
            self.queue.drain()
        elif self.interrupts == 1 and recovers:
            self.queue.closed = True
        else:
            self.engine.lose('the server is ending', 'ending')

    async def run(self):
        """Returns the exit code."""
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                loop.add_signal_handler(number, self.interrupt)
        self.renderer = Renderer()
        web = connections.Server(self.app)
        serving = loop.create_task(web.serve(sockets=[self.listener]))
        try:
            self.terminal.loading(0)
            code = await self.engine.run()
        except OSError as error:
            raise Problem(f'{self.engine.engine.command[0]} cannot be started ({error.strerror})') from None
        finally:
            web.end(at_once=self.interrupts > 1)
            await serving
            await self.engine.engine.end()
            self.renderer.close()
        return self.outcome(code)

    def outcome(self, code):
        """The exit code, with a line that says why."""
        if self.interrupts:
            return 0 if self.served else 130
        if self.server.template is None:
            if code == 1 and 'is not a flag' in self.engine.last_error:
                self.terminal.say("serve: flags that are not the engine's are listed by launch/serve --help")
            if self.flags.hostfile and not self.engine.last_error.startswith('yamata: '):
                self.terminal.say(f'serve: the engine has not started; launch/cluster check {self.flags.hostfile} says what is wrong')
            return code if code in (1, 2, 3) else LOST  # the engine has said why
        code_said = f'; exit code {code}' if code >= 0 else ''  # else a signal, which has been said
        self.terminal.say(f'serve: the engine was lost ({self.engine.why}{code_said}); start again')
        return LOST


def serve(flags, engine_words):
    return asyncio.run(Service(flags, engine_words).run())
