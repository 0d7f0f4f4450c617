# The request asks a server with one event loop, which computes for another client first (a callback that takes 500 ms).
import ctypes, hashlib, json, os, select, socket, threading, time, signal
libc = ctypes.CDLL(None)
os.setpriority(os.PRIO_PROCESS, 0, -20)  # as zoo_init
def name(n): libc.prctl(15, n.encode(), 0, 0, 0)
ls = socket.socket(); ls.bind(("127.0.0.1", 0)); ls.listen(8); addr = ls.getsockname()
pid = os.fork()
if pid == 0:
    name("chatloop"); ep = select.epoll(); ep.register(ls, select.EPOLLIN); conns = {}
    signal.alarm(10)
    while True:
        for fd, _ in ep.poll():
            if fd == ls.fileno(): c, _a = ls.accept(); conns[c.fileno()] = c; ep.register(c, select.EPOLLIN); continue
            d = conns[fd].recv(100)
            if not d: os._exit(0)
            if d == b"slow": hashlib.pbkdf2_hmac("sha256", b"x", b"y", 500000)
            conns[fd].send(b"ok")
name("mobile")
a, c = socket.create_connection(addr), socket.create_connection(addr)
a.send(b"fast"); a.recv(9); time.sleep(0.05)
a.send(b"slow"); time.sleep(0.02)
b = time.time_ns(); c.send(b"fast"); c.recv(9); e = time.time_ns()
a.close(); os.waitpid(pid, 0)
print(json.dumps({"id": "34-loop-compute", "service": "mobile", "pid": os.getpid(), "tid": threading.get_native_id(), "begin_ns": b, "end_ns": e, "ms": (e - b) / 1e6, "truth": {"culprit_pid": pid}}))
