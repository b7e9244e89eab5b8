# Stands before scripts that migrate a guest, which has MEGABYTES of memory.
import json
import socket
import subprocess


class Machine:
    """A QEMU without devices, controlled over its QMP socket, and read and written as a debugger does."""

    def __init__(self, name, *options):
        qmp, its_qmp = socket.socketpair()
        debugger, its_debugger = socket.socketpair()
        self.process = subprocess.Popen(
            ["qemu-system-x86_64", "-accel", "tcg", "-machine", "q35", "-m", str(MEGABYTES)]
            + ["-nodefaults", "-display", "none", "-S"]
            + ["-chardev", f"socket,id=qmp,fd={its_qmp.fileno()}", "-mon", "chardev=qmp,mode=control"]
            + ["-chardev", f"socket,id=gdb,fd={its_debugger.fileno()}", "-gdb", "chardev:gdb"]
            + list(options),
            pass_fds=[its_qmp.fileno(), its_debugger.fileno()],
        )
        its_qmp.close()
        its_debugger.close()
        self.name = name
        self.lines = qmp.makefile("rw")
        self.debugger = debugger.makefile("rwb")
        self.answer()
        self.do("qmp_capabilities")

    def answer(self):
        line = self.lines.readline()
        assert line, f"{self.name} is gone"
        return json.loads(line)

    def do(self, command, **arguments):
        self.lines.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self.lines.flush()
        while True:
            answer = self.answer()
            if "return" in answer:
                return answer["return"]
            assert "event" in answer, f"{self.name}: {command}: {answer}"

    def memory(self):
        self.do("pmemsave", val=0, size=MEGABYTES << 20, filename=f"{self.name}.memory")
        with open(f"{self.name}.memory", "rb") as file:
            return file.read()

    def write(self, at, content):
        packet = f"M{at:x},{len(content):x}:{content.hex()}".encode()
        self.debugger.write(b"$%b#%02x" % (packet, sum(packet) % 256))
        self.debugger.flush()
        answer = self.debugger.read(len("+$OK#9a"))
        assert answer == b"+$OK#9a", answer
        self.debugger.write(b"+")
