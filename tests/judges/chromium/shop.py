# shop.py DIR: a request that waits for a lock, whose holder writes an index to the disk of DIR; and
# some signals. Prints the thread that waited, and for how many seconds.
import ctypes
import fcntl
import os
import signal
import socket
import sys
import time

folder = sys.argv[1]
lock = folder + "/index.lock"
here, there = socket.socketpair()


def child(name, work):
    pid = os.fork()
    if pid == 0:
        ctypes.CDLL(None).prctl(15, name.encode())  # PR_SET_NAME
        work()
        os._exit(0)
    return pid


def reindex():
    fd = os.open(lock, os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX)
    data = os.open(folder + "/index.data", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    time.sleep(0.15)
    for _ in range(12):
        os.write(data, os.urandom(65536))
        os.fsync(data)
    fcntl.flock(fd, fcntl.LOCK_UN)


def catalog():
    here.close()
    there.recv(64)
    fcntl.flock(os.open(lock, os.O_RDWR), fcntl.LOCK_EX)
    there.send(b"ok")


def shopfront():
    there.close()
    signal.signal(signal.SIGUSR1, lambda *_: None)
    time.sleep(0.1)
    began = time.monotonic()
    here.send(b"get")
    here.recv(64)
    print(os.getpid(), time.monotonic() - began, flush=True)


open(lock, "w").close()
children = [child("reindex", reindex), child("catalog", catalog), child("shopfront", shopfront)]
here.close()
there.close()
for _ in range(4):
    time.sleep(0.13)
    try:
        os.kill(children[2], signal.SIGUSR1)
    except ProcessLookupError:
        pass
for pid in children:
    os.waitpid(pid, 0)
