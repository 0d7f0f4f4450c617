"""What the commands of the documentation look for, again and again until standard input ends.

    shop.py DIR CGROUPS [NAME]

A shop: `orders` waits for a lock that `journal` holds, fails to open files, starts programs, syncs
/srv/shop/journal; nginx serves python3, and runs in the control groups MEMBERS_OF below CGROUPS.
FUNCTIONS: the program of functions.c. DIR: a directory of its own. Prints the process id of
`orders`. With NAME: only a process of that name that waits for long, and whose calls fail.
"""
import contextlib
import ctypes
import fcntl
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time

DIR, CGROUPS = sys.argv[1:3]
LOCK = f"{DIR}/lock"
TABLE = "/var/lib/mysql/orders.ibd"
PR_SET_PDEATHSIG = 1
# Longer than all limits that the documentation's commands set (--slower-than).
SLOW = 0.35


def name(of):
    with open("/proc/self/comm", "w") as comm:
        comm.write(of)


def enter(group):
    os.makedirs(f"{CGROUPS}/{group}", exist_ok=True)
    with open(f"{CGROUPS}/{group}/cgroup.procs", "w") as members:
        members.write(str(os.getpid()))


def sync(path, mode="ab"):
    with open(path, mode) as file:
        file.write(b"x" * 4096)
        file.flush()
        os.fsync(file.fileno())


def missing():
    try:
        open("/srv/shop/missing")
    except OSError:
        pass


def again(work, parent):
    """Does this again and again, and is killed when the parent ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    while os.getppid() == parent:
        work()


def process(work):
    """Starts a process that does this again and again."""
    parent = os.getpid()
    if os.fork() == 0:
        again(work, parent)
        os._exit(0)


def member(group):
    """Starts nginx in a control group, as a runtime does: the program begins there."""
    if os.fork() == 0:
        enter(group)
        os.execv(sys.executable, [sys.executable, *sys.argv[:3], "nginx"])


def journal():
    name("journal")
    with open(LOCK) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        time.sleep(SLOW)
        sync("/srv/shop/journal.wal")
    time.sleep(0.05)


def orders():
    missing()
    with open(LOCK) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        sync("/srv/shop/journal")
    with contextlib.suppress(subprocess.TimeoutExpired):
        # No window of the commands is without what orders does, whatever holds a program up.
        subprocess.run(
            f"cat /srv/shop/missing; rm -f {DIR}/x; kill -USR1 $$; flock {DIR}/other true;"
            f" timeout 1 sleep 0.01; bash -c 'sleep 0.01; true';"
            f" dd if=/dev/zero of={DIR}/x bs=4k count=4 conv=fsync; true",
            shell=True, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=2)


def crowd(of):
    """Waits for long, and has calls that fail."""
    def work():
        name(of)
        missing()
        sync(f"{DIR}/{of}")
        select.select([], [], [], SLOW)
    return work


def table():
    name("mysqld")
    opened = threading.Thread(target=lambda: (time.sleep(SLOW), open(TABLE, "wb").close()))
    opened.start()
    open(TABLE, "rb").close()
    opened.join()


def probed():
    """In a process of its own: adding and removing probes may hold it up."""
    name("caller")
    subprocess.run([os.environ["FUNCTIONS"], "calls", "3"])
    time.sleep(0.2)


def serve(server):
    def work():
        name("nginx")
        client, _ = server.accept()
        client.recv(100)
        client.send(b"page")
        client.close()
    return work


def connect(port):
    def work():
        name("python3")
        for to in (port, 1):
            try:
                with socket.create_connection(("127.0.0.1", to)) as stream:
                    stream.send(b"GET /")
                    stream.recv(100)
            except OSError:
                pass
        time.sleep(0.1)
    return work


def main():
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    os.makedirs("/srv/shop", exist_ok=True)
    os.makedirs(os.path.dirname(TABLE), exist_ok=True)
    os.mkfifo(TABLE)
    open(LOCK, "w").close()
    server = socket.create_server(("127.0.0.1", 0))
    for work in [journal, table, serve(server), connect(server.getsockname()[1]),
                 probed, crowd("postgres"), crowd("thumbs")]:
        process(work)
    for group in os.environ["MEMBERS_OF"].split(","):
        member(group)
    name("orders")
    print(os.getpid(), flush=True)
    while not select.select([sys.stdin], [], [], 0)[0]:
        orders()


if len(sys.argv) > 3:
    again(crowd(sys.argv[3]), os.getppid())
else:
    main()
