"""What the MPS daemon's limits hold, and what its clients see when a process dies. For an idle GPU, as root.

It starts daemons of its own, in directories of its own, and ends no other process.
"""
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

from gpu import PATIENCE, Client, Gpu, say

CONTROL = "nvidia-cuda-mps-control"
CLIENTS = 64
NOBODY, ANOTHER = 65534, 65533


class Daemon:
    """An MPS daemon; it and its servers are ended at the end of a `with`."""

    def __init__(self, user=0, flags=("-d",)):
        self.dir = tempfile.mkdtemp(prefix="real-gpu-mps-")
        os.chmod(self.dir, 0o755)
        names = {"CUDA_MPS_PIPE_DIRECTORY": "pipe", "CUDA_MPS_LOG_DIRECTORY": "log"}
        self.environment = {variable: os.path.join(self.dir, name) for variable, name in names.items()}
        for directory in self.environment.values():
            os.mkdir(directory)
            os.chown(directory, user, user)
        self.user = user or None
        self.control(*flags)
        self.pid = self.listener()

    def listener(self):
        """The process that listens on the daemon's socket."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as caller:
            caller.connect(os.path.join(self.dir, "pipe", "control"))
            return struct.unpack("iII", caller.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]

    def control(self, *flags, words=None):
        identity = {} if self.user is None else {"user": self.user, "group": self.user, "extra_groups": []}
        env = {**os.environ, **self.environment}
        pipes = {"input": words, "capture_output": True, "text": True}
        try:
            return subprocess.run([CONTROL, *flags], env=env, timeout=PATIENCE, **pipes, **identity).stdout.strip()
        except subprocess.TimeoutExpired:
            return f"no answer in {PATIENCE} s"

    def ask(self, words):
        return self.control(words=words + "\n")

    def servers(self):
        lines = self.ask("get_server_list").splitlines()
        return [int(line) for line in lines if line.strip().isdigit()]

    def client(self, **environment):
        return Client({**self.environment, **environment}, self.user)

    def started(self, **environment):
        client = self.client(**environment)
        return client, client.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pid in [*self.servers(), self.pid]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        shutil.rmtree(self.dir, ignore_errors=True)


def limits(gpu):
    say("== limits")
    memory, threads = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
    with Daemon() as daemon:
        first, started = daemon.started()
        say(f"the first client: {started}")
        gpu.show("a client")
        for environment in ({}, {memory: "0=1G"}, {memory: "0=2500M"}, {memory: "0=x"}, {threads: "1"}, {threads: "25"}):
            show_limit(daemon, environment)
        with daemon.client(**{memory: "0=1G"}) as client:
            client.tell(f"unset {memory}")
            say(f"a client that unsets it: {client.start()}, 2 GiB {client.tell('alloc 2048')}")
        for words in ("set_default_device_pinned_mem_limit 0 3G", "set_default_active_thread_percentage 50"):
            daemon.ask(words)
        for server in daemon.servers():
            daemon.ask(f"set_device_pinned_mem_limit {server} 0 3G\nset_active_thread_percentage {server} 50")
        say(f"the daemon says 3G: the old client, 4 GiB: {first.tell('alloc 4096')}")
        show_limit(daemon, {})
        show_limit(daemon, {memory: "0=8G", threads: "90"})
        first.end()


def show_limit(daemon, environment):
    client, started = daemon.started(**environment)
    say(f"{environment}: {started}, SMs {client.tell('sms')}, code, free and total MiB {client.tell('info')}")
    say(f"  0.4 GiB {client.tell('alloc 400')}, 4 GiB more {client.tell('alloc 4096')}")
    client.end()


def many(gpu):
    say("== many clients at once")
    with Daemon() as daemon:
        clients = [daemon.client() for _ in range(CLIENTS)]
        for client in clients:
            client.send("init\ncontext")
        answers = [f"cuInit {client.answer()}, context {client.answer()}" for client in clients]
        for answer in sorted(set(answers)):
            say(f"{answers.count(answer)} clients: {answer}")
        for client in clients:
            client.end()


def deaths(gpu):
    say("== a client ends while its kernel runs")
    for how in ("SIGKILL", "SIGTERM", "terminate_client", "fault"):
        with Daemon() as daemon:
            dying, _ = daemon.started()
            neighbour, _ = daemon.started()
            if how == "fault":
                say(f"the client: {dying.tell('fault')}")
            else:
                dying.tell("spin 3")
                time.sleep(0.2)
            if how == "terminate_client":
                for server in daemon.servers():
                    daemon.ask(f"terminate_client {server} {dying.pid}")
                say(f"the client: {dying.tell('sync')}")
            dying.end(getattr(signal, how, signal.SIGKILL))
            time.sleep(0.3)
            say(f"{how}: the neighbour, 1 MiB {neighbour.tell('alloc 1')}, synchronises {neighbour.tell('sync')}")
            show_newcomer(daemon, "while the neighbour lives")
            neighbour.end()
            time.sleep(0.5)
            show_newcomer(daemon, "after it has ended")


def daemons_die(gpu):
    say("== the server is killed")
    with Daemon() as daemon:
        client, _ = daemon.started()
        for server in daemon.servers():
            os.kill(server, signal.SIGKILL)
        time.sleep(0.5)
        say(f"its client: 1 MiB {client.tell('alloc 1')}, synchronises {client.tell('sync')}")
        client.end()
        show_newcomer(daemon, "then")
    say("== the daemon is killed")
    with Daemon() as daemon:
        client, _ = daemon.started(CUDA_MPS_ACTIVE_THREAD_PERCENTAGE="25")
        os.kill(daemon.pid, signal.SIGKILL)
        time.sleep(0.5)
        say(f"its client: 1 MiB {client.tell('alloc 1')}, synchronises {client.tell('sync')}")
        client.end()
        show_newcomer(daemon, "then, 25 % of the SMs", CUDA_MPS_ACTIVE_THREAD_PERCENTAGE="25")


def show_newcomer(daemon, when, **environment):
    client, started = daemon.started(**environment)
    say(f"a new client {when}: {started}, SMs {client.tell('sms')}")
    client.end()


def users(gpu):
    say("== daemons and users")
    with Daemon(user=NOBODY) as daemon:
        client, started = daemon.started()
        say(f"a user's daemon, a client: {started}")
        gpu.show("server and client")
        show_other(daemon, "while it lives")
        client.end()
        show_other(daemon, "after it has ended")
    with Daemon(flags=("-d", "-multiuser-server")) as daemon:
        client, started = daemon.started()
        say(f"a daemon for several users, a client: {started}")
        client.end()


def show_other(daemon, when):
    with Client(daemon.environment, ANOTHER) as other:
        say(f"another user's client {when}: cuInit {other.tell('init')}")


def main():
    # An end from outside still ends the daemons that were started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    if shutil.which(CONTROL) is None or os.geteuid() != 0:
        sys.exit(f"run this as root, with {CONTROL} on the PATH")
    gpu = Gpu()
    gpu.refuse_company()
    for part in (limits, many, deaths, daemons_die, users):
        part(gpu)
    gpu.show("at the end")
    say("== done")


if __name__ == "__main__":
    main()
