"""Migrates a guest from one QEMU to another over RDMA, and compares their memory."""

import json
import socket
import subprocess

MEGABYTES = 64
WHERE = "rdma:10.9.9.1:4444"


class Machine:
    """A QEMU without devices, controlled over its QMP socket."""

    def __init__(self, name, *options):
        mine, its = socket.socketpair()
        self.process = subprocess.Popen(
            ["qemu-system-x86_64", "-accel", "tcg", "-machine", "q35", "-m", str(MEGABYTES)]
            + ["-nodefaults", "-display", "none"]
            + ["-chardev", f"socket,id=qmp,fd={its.fileno()}", "-mon", "chardev=qmp,mode=control"]
            + list(options),
            pass_fds=[its.fileno()],
        )
        its.close()
        self.name = name
        self.lines = mine.makefile("rw")
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


source = Machine("source")
# The guest stays stopped, so that its memory does not change before it is compared.
target = Machine("target", "-S", "-incoming", WHERE)
source.do("migrate", uri=WHERE)
while (state := source.do("query-migrate")).get("status") not in ("completed", "failed"):
    pass
print(json.dumps(state))
assert state["status"] == "completed", state
before, after = source.memory(), target.memory()
differ = [page for page in range(0, len(before), 4096) if before[page : page + 4096] != after[page : page + 4096]]
print(f"{len(before)} bytes of memory, {len(differ)} pages differ")
assert not differ, differ[:10]
for machine in (source, target):
    machine.process.kill()
    machine.process.wait()
