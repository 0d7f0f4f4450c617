# The request needs the interpreter for moments, between waits of 0.2 ms; "tokenizer", another thread, has the interpreter's lock for 5 ms each time.
import ctypes, json, os, threading, time
libc = ctypes.CDLL(None)
os.setpriority(os.PRIO_PROCESS, 0, -20)  # as zoo_init
def name(n): libc.prctl(15, n.encode(), 0, 0, 0)
stop = False
ids = []
def tokenizer():
    name("tokenizer"); ids.append(threading.get_native_id())
    x = 0
    while not stop: x = (x * 31 + 7) % 1000003
name("chatapi"); t = threading.Thread(target=tokenizer); t.start()
time.sleep(0.05)
b = time.time_ns()
for i in range(70): time.sleep(0.0002)
e = time.time_ns(); stop = True
t.join()
print(json.dumps({"id": "33-gil", "service": "chatapi", "pid": os.getpid(), "tid": threading.get_native_id(), "begin_ns": b, "end_ns": e, "ms": (e - b) / 1e6, "truth": {"culprit_tid": ids[0]}}))
