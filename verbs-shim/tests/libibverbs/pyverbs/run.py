"""Runs rdma-core's tests in pyverbs as their run_tests.py does, and notes what became of each.

Arguments: the folder of the tests, the device, and the file for the notes: a line for each test,
with name, outcome and reason between tabs. A line break in a reason is a backslash and an n.
"""

import ctypes
import gc
import os
import sys
import unittest
from importlib.machinery import SourceFileLoader

from pyverbs.dmabuf import DmaBuf

folder, device, path = sys.argv[1:]
notes = open(path, "w", encoding="utf-8")


class Notes(unittest.TextTestResult):
    def note(self, test, outcome, reason=""):
        reason = reason.replace("\t", " ").replace("\n", "\\n")
        print(test.id(), outcome, reason, sep="\t", file=notes, flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.note(test, "ok")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.note(test, "skipped", reason)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.note(test, "failed", self.failures[-1][1])

    def addError(self, test, err):
        super().addError(test, err)
        self.note(test, "failed", self.errors[-1][1])

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.note(test, "failed", self._exc_info_to_string(err, test))


def find_add_ref():
    """In release 44, a region of a dma-buf registers itself with its buffer through a method that
    Python can't see, so all such regions fail, on every device. This adds a visible method, which
    does nothing. That matters only to tests that close a buffer before its regions."""
    attributes = gc.get_referents(DmaBuf.__dict__)[0]
    attributes["add_ref"] = lambda buffer, region: None
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(DmaBuf))


def find_interface():
    """Tests of the connection manager look for the device's interface in /sys, where `roce run`
    shows it. This returns what they would find there."""
    folder = f"/sys/class/infiniband/{device}/device/net/"
    exists = os.path.exists
    os.path.exists = lambda path: path == folder or exists(path)
    from tests.base import RDMATestCase

    RDMATestCase.get_net_name = staticmethod(lambda name: name.removeprefix("roce_"))


find_add_ref()
# As for a script in that folder.
sys.path.insert(0, folder)
sys.argv = ["run_tests.py", "--dev", device]
from args_parser import parser  # noqa: E402

tests = SourceFileLoader("tests", f"{folder}/__init__.py").load_module()
find_interface()
parser.parse_args()
runner = unittest.TextTestRunner(resultclass=Notes, verbosity=2)
unittest.main(module=tests, testRunner=runner)
