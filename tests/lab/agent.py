"""The guest's end of the lab's command channel.

Runs commands for the host. The channel is one byte stream (a virtio-serial
port) of frames: kind (1 byte), command id (u32), length (u32), both little
endian, then length bytes.

From the host:
  S  start: JSON {"argv": [...], "env": {...}, "cwd": "..."}, or {"module": "..."}
     for main() of a module in the same folder
  I  bytes for the command's stdin; an empty frame closes it
  K  JSON {"signal": n}: signal the command's whole process group
From the guest:
  R  ready (id 0): JSON
  P  started: JSON {"pid": n}
  F  could not be started: text
  O, E  bytes of stdout, stderr
  X  ended, always the last frame of an id: JSON {"code": n} or {"signal": n}
"""

import fcntl
import importlib
import json
import os
import selectors
import signal
import struct
import subprocess
import sys
import traceback

HEADER = struct.Struct("<BII")
CHUNK = 65536


class Fork:
    """A fork of this process that runs main() of a module, with the parts of Popen used here.
    The module and its imports are loaded once, which takes seconds under emulation."""

    def __init__(self, name):
        try:
            module = importlib.import_module(name)
        except Exception as error:
            raise ImportError(f"{name}: {error!r}") from error
        theirs_in, ours_in = os.pipe()
        ours_out, theirs_out = os.pipe()
        ours_err, theirs_err = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            self.run(module, (theirs_in, theirs_out, theirs_err))
        # A process group of its own, before a signal can be sent to it.
        os.setpgid(self.pid, self.pid)
        for end in (theirs_in, theirs_out, theirs_err):
            os.close(end)
        self.stdin = open(ours_in, "wb", buffering=0)
        self.stdout = open(ours_out, "rb", buffering=0)
        self.stderr = open(ours_err, "rb", buffering=0)

    @staticmethod
    def run(module, files):
        code = 1
        try:
            os.chdir("/tmp")
            for number, file in enumerate(files):
                os.dup2(file, number)
            # These include the ends of other commands' pipes.
            os.closerange(3, os.sysconf("SC_OPEN_MAX"))
            module.main()
            sys.stdout.flush()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)

    def wait(self):
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class Command:
    """A running command and the ends of its pipes."""

    def __init__(self, number, spec):
        self.number = number
        if "module" in spec:
            self.process = Fork(spec["module"])
        else:
            self.process = subprocess.Popen(
                spec["argv"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                env={**os.environ, **spec.get("env", {})},
                cwd=spec.get("cwd", "/tmp"),
                start_new_session=True,
            )
        self.stdin = self.process.stdin
        self.pending = b""
        self.stdin_closing = False
        self.outputs = {ord("O"): self.process.stdout, ord("E"): self.process.stderr}
        self.pidfd = os.pidfd_open(self.process.pid)
        for pipe in (self.stdin, self.process.stdout, self.process.stderr):
            flags = fcntl.fcntl(pipe, fcntl.F_GETFL)
            fcntl.fcntl(pipe, fcntl.F_SETFL, flags | os.O_NONBLOCK)


class Agent:
    def __init__(self, path):
        self.port = os.open(path, os.O_RDWR)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.port, selectors.EVENT_READ, self.on_port)
        self.commands = {}
        self.received = bytearray()

    def send(self, kind, number, body):
        if not isinstance(body, (bytes, bytearray)):
            body = json.dumps(body).encode()
        data = memoryview(HEADER.pack(ord(kind), number, len(body)) + body)
        while data:
            data = data[os.write(self.port, data):]

    def run(self):
        self.send("R", 0, {"pid": os.getpid()})
        while True:
            for key, _ in self.selector.select():
                # An earlier handler of this round may have closed it, and its number may be in use
                # again.
                if self.selector.get_map().get(key.fd) is key:
                    key.data()

    # Frames from the host

    def on_port(self):
        data = os.read(self.port, CHUNK)
        if not data:
            sys.exit("agent: the host closed the channel")
        self.received += data
        while len(self.received) >= HEADER.size:
            kind, number, length = HEADER.unpack_from(self.received)
            end = HEADER.size + length
            if len(self.received) < end:
                return
            body = bytes(self.received[HEADER.size:end])
            del self.received[:end]
            self.on_frame(chr(kind), number, body)

    def on_frame(self, kind, number, body):
        if kind == "S":
            self.start(number, json.loads(body))
            return
        command = self.commands.get(number)
        if command is None:
            return  # it has just ended
        if kind == "I":
            if body:
                command.pending += body
            else:
                command.stdin_closing = True
            self.feed(command)
        elif kind == "K":
            try:
                os.killpg(command.process.pid, json.loads(body)["signal"])
            except ProcessLookupError:
                pass

    def start(self, number, spec):
        try:
            command = Command(number, spec)
        except (OSError, ValueError, ImportError) as error:
            self.send("F", number, str(error).encode())
            return
        self.commands[number] = command
        self.send("P", number, {"pid": command.process.pid})
        for kind, pipe in command.outputs.items():
            self.watch(pipe, selectors.EVENT_READ, lambda k=kind: self.on_output(command, k))
        self.watch(command.pidfd, selectors.EVENT_READ, lambda: self.on_exit(command))

    def watch(self, file, events, handler):
        self.selector.register(file, events, handler)

    def forget(self, file):
        try:
            self.selector.unregister(file)
        except (KeyError, ValueError):
            pass

    # Pipes of a command

    def feed(self, command):
        """Writes as much as the command's stdin accepts; the rest follows when it accepts more."""
        if command.stdin is None:
            return
        try:
            while command.pending:
                written = os.write(command.stdin.fileno(), command.pending)
                command.pending = command.pending[written:]
        except BlockingIOError:
            try:
                self.watch(command.stdin, selectors.EVENT_WRITE, lambda: self.feed(command))
            except KeyError:
                pass  # watched already
            return
        except BrokenPipeError:
            command.stdin_closing = True
        self.forget(command.stdin)
        if command.stdin_closing:
            command.stdin.close()
            command.stdin = None

    def on_output(self, command, kind):
        """Forwards one chunk. Returns whether there may be more."""
        pipe = command.outputs[kind]
        try:
            data = os.read(pipe.fileno(), CHUNK)
        except BlockingIOError:
            return False
        if data:
            self.send(chr(kind), command.number, data)
            return True
        self.forget(pipe)
        pipe.close()
        del command.outputs[kind]
        return False

    def on_exit(self, command):
        code = command.process.wait()
        self.forget(command.pidfd)
        os.close(command.pidfd)
        for kind in list(command.outputs):
            for _ in range(1024):  # a descendant may go on writing for ever
                if not self.on_output(command, kind):
                    break
        for pipe in command.outputs.values():
            # A descendant still holds the other end.
            self.forget(pipe)
            pipe.close()
        if command.stdin is not None:
            self.forget(command.stdin)
            command.stdin.close()
        del self.commands[command.number]
        self.send("X", command.number, {"signal": -code} if code < 0 else {"code": code})


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    Agent(sys.argv[1]).run()
