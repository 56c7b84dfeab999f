"""Hosts that are really apart: network namespaces on one switch, which is in one of its own, so
nothing of the machine's network is touched.

    within(host, work)   do it in a thread that is on that host: sockets and processes stay there
    cut, mend            the host's link
    deafen(host, to)     what it sends there is lost; what comes from there arrives
    slow(host, to)       packets between them take their time, and some are lost

A host's threads are ended by `close`, its processes by who started them.
"""

import ctypes
import fcntl
import os
import select
import shutil
import struct
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from random import Random
from typing import Any, TypeVar

from support.node_processes import NodeProcess
from support.postgres import PostgresServer

Found = TypeVar("Found")
_CLONE_NEWNET = 0x40000000
_TUNSETIFF, _TUN, _NO_HEADER = 0x400454CA, 0x0001, 0x1000
_MOST_PACKET = 1 << 16
_libc = ctypes.CDLL(None, use_errno=True)
_numbers = count(1)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=30)


def obstacle() -> str:
    """Why there can be no hosts here; "" where there can."""
    for program in ("ip", "nft", "faketime"):
        if shutil.which(program) is None:
            return f"no {program} here"
    name = f"exuvia-try-{os.getpid()}"
    try:
        _ip("netns", "add", name)
        _ip("netns", "del", name)
    except (OSError, subprocess.SubprocessError) as error:
        return f"network namespaces are not allowed here: {error}"
    return ""


class Wire:
    """Carries packets between two TUN devices: each arrives after `delay_s`, unless it is lost.
    Not every kernel has netem. Unit: s."""

    def __init__(self, ends: tuple[int, int], delay_s: float, loss: float) -> None:
        self._ends, self._delay_s, self._loss = ends, delay_s, loss
        self._chance = Random(1)
        self._stopping = False
        self.carried = self.lost = 0
        self._thread = threading.Thread(target=self._carry, daemon=True)
        self._thread.start()

    def _carry(self) -> None:
        there = dict(zip(self._ends, reversed(self._ends), strict=True))
        under_way: deque[tuple[float, int, bytes]] = deque()  # in the order in which they are due
        while not self._stopping:
            pause_s = max(0.0, under_way[0][0] - time.monotonic()) if under_way else 0.1
            for end in select.select(self._ends, [], [], min(pause_s, 0.1))[0]:
                packet = os.read(end, _MOST_PACKET)
                if self._chance.random() < self._loss:
                    self.lost += 1
                else:
                    under_way.append((time.monotonic() + self._delay_s, there[end], packet))
            while under_way and under_way[0][0] <= time.monotonic():
                _, end, packet = under_way.popleft()
                os.write(end, packet)
                self.carried += 1

    def close(self) -> None:
        self._stopping = True
        self._thread.join()
        for end in self._ends:
            os.close(end)


class Hosts:
    """The hosts of one test. Addresses: 10.77.0.1 and up, in the order of the names."""

    def __init__(self, *names: str) -> None:
        self._prefix = f"exuvia{os.getpid()}-{next(_numbers)}-"
        self._switch = self._prefix + "switch"
        self._names = names
        self._here = threading.local()
        self._wires: list[Wire] = []
        self._threads = {
            each: ThreadPoolExecutor(1, initializer=self._enter, initargs=(each,)) for each in names
        }
        try:
            self._make()
        except BaseException:
            self.__exit__()
            raise

    def _make(self) -> None:
        _ip("netns", "add", self._switch)
        self._there(self._switch, "ip link add switch type bridge")
        self._there(self._switch, "ip link set switch up")
        for number, name in enumerate(self._names, 1):
            space = self._prefix + name
            _ip("netns", "add", space)
            pair = f"link add name to-{name} type veth peer name net0 netns {space}"
            _ip("-n", self._switch, *pair.split())
            self._there(self._switch, f"ip link set to-{name} master switch up")
            self._there(space, f"ip addr add 10.77.0.{number}/24 dev net0")
            self._there(space, "ip link set net0 up")
            self._there(space, "ip link set lo up")

    def __enter__(self) -> "Hosts":
        return self

    def __exit__(self, *_: object) -> None:
        for wire in self._wires:
            wire.close()
        for thread in self._threads.values():
            thread.shutdown()
        for name in (*self._names, "switch"):
            subprocess.run(["ip", "netns", "del", self._prefix + name], check=False, timeout=30)

    def _there(self, space: str, command: str) -> None:
        _ip("netns", "exec", space, *command.split(" ", 12))

    def _enter(self, name: str) -> None:
        descriptor = os.open(f"/run/netns/{self._prefix}{name}", os.O_RDONLY)
        if _libc.setns(descriptor, _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")
        os.close(descriptor)
        self._here.name = name

    def address(self, name: str) -> str:
        return f"10.77.0.{self._names.index(name) + 1}"

    def within(self, name: str, work: Callable[[], Found]) -> Found:
        """What it gives, done on that host. One thing at a time a host."""
        if getattr(self._here, "name", "") == name:
            return work()
        return self._threads[name].submit(work).result()

    # -- what goes wrong -------------------------------------------------------------------------

    def cut(self, name: str) -> None:
        """Its link is down."""
        self._there(self._switch, f"ip link set to-{name} down")

    def mend(self, name: str) -> None:
        """Its link is up again, and all that it sends arrives."""
        self._there(self._switch, f"ip link set to-{name} up")
        subprocess.run(
            ["ip", "netns", "exec", self._prefix + name, "nft", "flush", "ruleset"],
            check=True,
            timeout=30,
        )

    def _rule(self, name: str, rule: str) -> None:
        space = self._prefix + name
        text = (
            "table inet faults { chain out { type filter hook output priority 0; policy accept; "
            f'oifname != "lo" {rule} drop; }}; }}\n'
        )
        subprocess.run(
            ["ip", "netns", "exec", space, "nft", "-f", "-"],
            input=text.encode(),
            check=True,
            timeout=30,
        )

    def slow(self, name: str, to: str, delay_s: float, loss: float) -> Wire:
        """From now on their packets, each way, take so long, and that share of them is lost."""
        ends = self._tun(name, to), self._tun(to, name)
        self._wires.append(Wire(ends, delay_s, loss))
        return self._wires[-1]

    def _tun(self, name: str, to: str) -> int:
        """A device on that host for what it sends to the other one."""
        device = f"wire-{to}"

        def make() -> int:
            end = os.open("/dev/net/tun", os.O_RDWR)
            asked = struct.pack("16sH", device.encode(), _TUN | _NO_HEADER)
            fcntl.ioctl(end, _TUNSETIFF, asked)
            return end

        end = self.within(name, make)
        space = self._prefix + name
        self._there(space, f"ip link set {device} up")
        self._there(
            space, f"ip route add {self.address(to)}/32 dev {device} src {self.address(name)}"
        )
        return end

    def deafen(self, name: str, to: str) -> None:
        self._rule(name, f"ip daddr {self.address(to)}")


class HostNode(NodeProcess):
    """A node on one of the hosts, and clients beside it."""

    def __init__(self, hosts: Hosts, host: str, *given: Any, **named: Any) -> None:
        self.hosts, self.host = hosts, host
        begin = super().__init__
        hosts.within(host, lambda: begin(*given, **named))

    def connect(self, database: str | None = None, **settings: Any) -> Any:
        connect = super().connect
        return self.hosts.within(self.host, lambda: connect(database, **settings))

    def get(self, page: str) -> tuple[int, str]:
        get = super().get
        return self.hosts.within(self.host, lambda: get(page))


class HostServer(PostgresServer):
    """A PostgreSQL server on one of the hosts, for all of them."""

    def __init__(self, hosts: Hosts, host: str) -> None:
        super().__init__(("listen_addresses=*",))
        self.hosts, self.host = hosts, host

    def make(self) -> None:
        super().make()
        with (self.data / "pg_hba.conf").open("a") as access:
            access.write("host all all 10.0.0.0/8 trust\n")

    def start(self) -> None:
        self.hosts.within(self.host, super().start)

    def ask(self, query: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        ask = super().ask
        return self.hosts.within(self.host, lambda: ask(query, database))
