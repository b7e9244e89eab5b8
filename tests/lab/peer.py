"""A Soft-RoCE peer for tests, driven over stdin and stdout. The agent forks for it.

Each line of stdin is a JSON object {"cmd": NAME, ...}; each gets one line on
stdout, {"ok": {...}} or {"error": "..."}. The process ends with its stdin.
Numbers are in host order, GIDs in the notation of IPv6, memory in hex. Regions,
windows and queue pairs are named by the small numbers that creating them
returned. Commands and their fields are the methods `do_*` of Peer.
"""

import json
import os
import socket
import time

import pyverbs.enums as e
from pyverbs.addr import GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR, MW, MWBind, MWBindInfo
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

PORT = 1

ACCESS = {
    "local_write": e.IBV_ACCESS_LOCAL_WRITE,
    "remote_write": e.IBV_ACCESS_REMOTE_WRITE,
    "remote_read": e.IBV_ACCESS_REMOTE_READ,
    "remote_atomic": e.IBV_ACCESS_REMOTE_ATOMIC,
    "mw_bind": e.IBV_ACCESS_MW_BIND,
}

MTU = {
    256: e.IBV_MTU_256,
    512: e.IBV_MTU_512,
    1024: e.IBV_MTU_1024,
    2048: e.IBV_MTU_2048,
    4096: e.IBV_MTU_4096,
}

SEND_OPCODES = {
    "send": e.IBV_WR_SEND,
    "send_imm": e.IBV_WR_SEND_WITH_IMM,
    "send_inv": e.IBV_WR_SEND_WITH_INV,
    "write": e.IBV_WR_RDMA_WRITE,
    "write_imm": e.IBV_WR_RDMA_WRITE_WITH_IMM,
    "read": e.IBV_WR_RDMA_READ,
    "compare_swap": e.IBV_WR_ATOMIC_CMP_AND_SWP,
    "fetch_add": e.IBV_WR_ATOMIC_FETCH_AND_ADD,
    "local_inv": e.IBV_WR_LOCAL_INV,
}

STATUSES = [
    "SUCCESS", "LOC_LEN_ERR", "LOC_QP_OP_ERR", "LOC_EEC_OP_ERR", "LOC_PROT_ERR",
    "WR_FLUSH_ERR", "MW_BIND_ERR", "BAD_RESP_ERR", "LOC_ACCESS_ERR",
    "REM_INV_REQ_ERR", "REM_ACCESS_ERR", "REM_OP_ERR", "RETRY_EXC_ERR",
    "RNR_RETRY_EXC_ERR", "LOC_RDD_VIOL_ERR", "REM_INV_RD_REQ_ERR", "REM_ABORT_ERR",
    "INV_EECN_ERR", "INV_EEC_STATE_ERR", "FATAL_ERR", "RESP_TIMEOUT_ERR",
    "GENERAL_ERR",
]

COMPLETIONS = [
    "SEND", "RDMA_WRITE", "RDMA_READ", "COMP_SWAP", "FETCH_ADD", "BIND_MW",
    "LOCAL_INV", "RECV", "RECV_RDMA_WITH_IMM",
]

STATES = ["RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"]


def names(prefix, words):
    return {int(getattr(e, prefix + word)): word for word in words}


STATUS_NAMES = names("IBV_WC_", STATUSES)
COMPLETION_NAMES = names("IBV_WC_", COMPLETIONS)
STATE_NAMES = names("IBV_QPS_", STATES)


def flags(words):
    value = 0
    for word in words:
        value |= ACCESS[word]
    return value


def gid_text(gid):
    """pyverbs writes a GID as eight groups of four digits."""
    return socket.inet_ntop(socket.AF_INET6, bytes.fromhex(str(gid).replace(":", "")))


def gid_groups(text):
    digits = socket.inet_pton(socket.AF_INET6, text).hex()
    return ":".join(digits[i:i + 4] for i in range(0, 32, 4))


class Pair:
    """A queue pair with a completion queue of its own."""

    def __init__(self, peer, request):
        depth = request["depth"]
        self.cq = CQ(peer.context, 2 * depth)
        sges = request["sges"]
        cap = QPCap(
            max_send_wr=depth, max_recv_wr=depth, max_send_sge=sges, max_recv_sge=sges
        )
        init = QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=cap)
        self.qp = QP(peer.pd, init)

    def close(self):
        self.qp.close()
        self.cq.close()


class Peer:
    def __init__(self):
        self.things = {}
        self.last = 0

    def keep(self, thing):
        self.last += 1
        self.things[self.last] = thing
        return self.last

    def region(self, request):
        return self.things[request["mr"]]

    def pair(self, request):
        return self.things[request["qp"]]

    def sges(self, request):
        """Each has the region, an offset into it, and a length. pyverbs refuses an
        empty list, so an empty one gets a dummy that is not counted."""
        result = []
        for number, offset, length in request["sges"]:
            region = self.things[number]
            result.append(SGE(region.buf + offset, length, region.lkey))
        return result or [SGE(0, 0, 0)]

    # Device and memory

    def do_open(self, request):
        """device, gid_index"""
        self.context = Context(name=request["device"])
        self.pd = PD(self.context)
        self.gid_index = request["gid_index"]
        mtu = self.context.query_port(PORT).active_mtu
        return {
            "gid": gid_text(self.context.query_gid(PORT, self.gid_index)),
            "active_mtu": next(size for size, code in MTU.items() if code == mtu),
        }

    def do_register(self, request):
        """length, access"""
        region = MR(self.pd, request["length"], flags(request["access"]))
        region.write(bytes(request["length"]), request["length"])
        return {
            "mr": self.keep(region),
            "addr": region.buf,
            "lkey": region.lkey,
            "rkey": region.rkey,
        }

    def do_write_memory(self, request):
        """mr, offset, hex"""
        data = bytes.fromhex(request["hex"])
        self.region(request).write(data, len(data), request["offset"])

    def do_read_memory(self, request):
        """mr, offset, length"""
        data = self.region(request).read(request["length"], request["offset"])
        return {"hex": bytes(data).hex()}

    def do_window(self, request):
        """type, 1 or 2: a memory window, not yet bound"""
        types = {1: e.IBV_MW_TYPE_1, 2: e.IBV_MW_TYPE_2}
        window = MW(self.pd, types[request["type"]])
        return {"mw": self.keep(window)}

    def do_close(self, request):
        """id: of a region, a window or a queue pair"""
        self.things.pop(request["id"]).close()

    # Queue pairs

    def do_pair(self, request):
        """depth, sges"""
        pair = Pair(self, request)
        return {"qp": self.keep(pair), "qpn": pair.qp.qp_num}

    def do_connect(self, request):
        """qp and the attributes of a queue pair up to RTS"""
        attr = QPAttr(port_num=PORT)
        attr.qp_access_flags = flags(request["access"])
        attr.path_mtu = MTU[request["path_mtu"]]
        attr.dest_qp_num = request["remote_qpn"]
        attr.rq_psn = request["remote_psn"]
        attr.sq_psn = request["local_psn"]
        attr.max_dest_rd_atomic = request["max_dest_rd_atomic"]
        attr.max_rd_atomic = request["max_rd_atomic"]
        attr.min_rnr_timer = request["min_rnr_timer"]
        attr.timeout = request["timeout"]
        attr.retry_cnt = request["retry_count"]
        attr.rnr_retry = request["rnr_retry"]
        route = GlobalRoute(
            dgid=GID(gid_groups(request["remote_gid"])),
            sgid_index=self.gid_index,
            hop_limit=64,
            traffic_class=request["traffic_class"],
        )
        attr.ah_attr = AHAttr(port_num=PORT, is_global=1, gr=route)
        self.pair(request).qp.to_rts(attr)

    def do_fail(self, request):
        """qp: moves it to the error state"""
        self.pair(request).qp.modify(QPAttr(qp_state=e.IBV_QPS_ERR), e.IBV_QP_STATE)

    def do_query(self, request):
        """qp"""
        attr, _ = self.pair(request).qp.query(
            e.IBV_QP_STATE | e.IBV_QP_SQ_PSN | e.IBV_QP_RQ_PSN
        )
        return {
            "state": STATE_NAMES[int(attr.qp_state)],
            "sq_psn": attr.sq_psn,
            "rq_psn": attr.rq_psn,
        }

    # Work

    def do_receive(self, request):
        """qp, wr_id, sges"""
        sges = self.sges(request)
        work = RecvWR(wr_id=request["wr_id"], num_sge=len(sges), sg=sges)
        work.num_sge = len(request["sges"])
        self.pair(request).qp.post_recv(work)

    def do_send(self, request):
        """qp, wr_id, opcode, sges, signaled, fence, solicited; as the opcode needs
        imm, key (to invalidate), addr and rkey, compare and swap, add"""
        opcode = request["opcode"]
        sges = self.sges(request)
        options = 0
        for name, flag in (
            ("signaled", e.IBV_SEND_SIGNALED),
            ("fence", e.IBV_SEND_FENCE),
            ("solicited", e.IBV_SEND_SOLICITED),
        ):
            options |= flag if request[name] else 0
        work = SendWR(
            wr_id=request["wr_id"],
            opcode=SEND_OPCODES[opcode],
            num_sge=len(sges),
            sg=sges,
            send_flags=options,
        )
        work.num_sge = len(request["sges"])
        if "imm" in request:
            work.imm_data = socket.htonl(request["imm"])
        if "key" in request:
            # The same field, in host order.
            work.imm_data = request["key"]
        if opcode == "compare_swap":
            work.set_wr_atomic(
                request["rkey"], request["addr"], request["compare"], request["swap"]
            )
        elif opcode == "fetch_add":
            work.set_wr_atomic(request["rkey"], request["addr"], request["add"], 0)
        elif "rkey" in request:
            work.set_wr_rdma(request["rkey"], request["addr"])
        self.pair(request).qp.post_send(work)

    def do_bind(self, request):
        """qp, wr_id, mw, mr, offset, length, access: returns the window's key"""
        region = self.region(request)
        info = MWBindInfo(
            region, region.buf + request["offset"], request["length"], flags(request["access"])
        )
        work = SendWR(
            wr_id=request["wr_id"], opcode=e.IBV_WR_BIND_MW, num_sge=0,
            send_flags=e.IBV_SEND_SIGNALED,
        )
        work.set_bind_wr(self.things[request["mw"]], info)
        self.pair(request).qp.post_send(work)
        return {"rkey": work.rkey}

    def do_bind_verb(self, request):
        """The same for a window of type 1, which gets its key from the driver"""
        region = self.region(request)
        info = MWBindInfo(
            region, region.buf + request["offset"], request["length"], flags(request["access"])
        )
        window = self.things[request["mw"]]
        bind = MWBind(info, wr_id=request["wr_id"], send_flags=e.IBV_SEND_SIGNALED)
        self.pair(request).qp.bind_mw(window, bind)
        return {"rkey": window.rkey}

    def do_poll(self, request):
        """qp, count, milliseconds: returns fewer than count only after a timeout"""
        cq = self.pair(request).cq
        deadline = time.monotonic() + request["milliseconds"] / 1000
        found = []
        while len(found) < request["count"]:
            _, completions = cq.poll(request["count"] - len(found))
            found += [self.completion(wc) for wc in completions]
            if not completions:
                if time.monotonic() > deadline:
                    break
                time.sleep(0.0002)
        return {"completions": found}

    @staticmethod
    def completion(wc):
        status = STATUS_NAMES[int(wc.status)]
        result = {"wr_id": wc.wr_id, "status": status, "vendor_err": wc.vendor_err}
        if status == "SUCCESS":
            result["opcode"] = COMPLETION_NAMES[int(wc.opcode)]
            result["byte_len"] = wc.byte_len
            if wc.wc_flags & e.IBV_WC_WITH_IMM:
                result["imm"] = socket.ntohl(wc.imm_data)
            if wc.wc_flags & e.IBV_WC_WITH_INV:
                result["invalidated"] = wc.imm_data
        return result

    def run(self):
        # Other output must not break the protocol.
        replies = os.fdopen(os.dup(1), "w", buffering=1)
        os.dup2(2, 1)
        for line in open(0, encoding="utf-8"):
            request = json.loads(line)
            try:
                answer = {"ok": getattr(self, "do_" + request["cmd"])(request) or {}}
            except (PyverbsError, AttributeError, KeyError, TypeError, ValueError) as error:
                answer = {"error": "%s: %s" % (type(error).__name__, error)}
            replies.write(json.dumps(answer) + "\n")


def main():
    Peer().run()
