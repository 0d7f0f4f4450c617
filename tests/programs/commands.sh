# What tests/kernel/strace.rs runs under strace and under the recorder, in an empty directory: it
# does the same each time. Processes that run side by side meet at a pipe only, so that none sees
# how fast another is.
umask 022
mkdir one one/two three
touch one/empty
echo 'a line of text' >one/a
printf '%s\n' pear apple plum cherry >one/fruit
cp one/a one/b
cp -p one/fruit three/fruit
mv one/b one/c
mv one/c three
ln one/a one/hard
ln -s a one/soft
readlink one/soft
cat one/soft one/fruit
cat one/nothing
chmod 640 one/a
chmod u+x,go-rwx one/fruit
ls -la one
stat -c '%s %a %n' one/a
test -e one/a
head -n 1 one/fruit
tail -n 1 one/fruit
wc -c one/a
sort one/fruit
sort -r one/fruit -o three/sorted
uniq three/sorted
cut -c 1-2 one/fruit
tr a-z A-Z <one/fruit
grep p one/fruit
sed s/p/q/ one/fruit
tee three/tee <one/fruit
cmp one/fruit three/tee
dd if=one/fruit of=three/dd bs=8 count=2 status=none
truncate -s 4096 three/hole
find one -name 'f*'
cat one/fruit | sort | tail -n 2
date -u -r one >three/date
mkfifo three/pipe
exec 6<>three/pipe
echo through a pipe >&6
read line <&6
exec 6<&-
sleep 0.01
sh -c 'kill -TERM $$'
(cd three && pwd)
exec 5<one/fruit
read first <&5
exec 5<&-
nice -n 5 true
timeout 5 sleep 0.2
env -i true
false
cd nowhere
rm one/nothing
rmdir one
rm one/hard one/soft
rmdir one/two
basename one/two/x.txt .txt
dirname one/two/x
seq 1 5
expr 2 + 3
printf '%d\n' 7
touch -d '2001-02-03 04:05:06' three/old
touch -r three/old three/older
nl one/fruit
od -c one/a
base64 one/a
md5sum one/fruit
cksum one/a
paste one/fruit one/fruit
join one/a one/a
comm one/fruit one/fruit
fold -w 5 one/a
expand one/a
tac one/fruit
split -l 1 one/fruit three/part.
flock three/lock true
env A=b sh -c 'exit 3'
python3 -I -S -c '
import os, select, signal, socket
a, b = socket.socketpair()
a.sendall(b"ping"); b.recv(10); b.send(b"pong"); a.recv(10); a.shutdown(socket.SHUT_WR)
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", 0)); listener.listen(3)
client = socket.socket(); client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
client.connect(listener.getsockname())
server, _ = listener.accept()
client.send(b"hello"); server.recv(99)
poll = select.poll(); poll.register(server, select.POLLIN); poll.poll(0)
epoll = select.epoll(); epoll.register(server.fileno(), select.EPOLLIN); epoll.poll(0)
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); udp.close()
r, w = os.pipe(); os.write(w, b"x"); os.read(r, 1)
signal.signal(signal.SIGUSR1, signal.SIG_IGN); os.kill(os.getpid(), signal.SIGUSR1)
pid = os.fork()
if pid == 0: os._exit(3)
os.waitpid(pid, 0)
pid = os.fork()
if pid == 0: os._exit(4)
os.waitid(os.P_PID, pid, os.WEXITED)
six = socket.socket(socket.AF_INET6); six.bind(("::1", 0)); six.getsockname()
unix = socket.socket(socket.AF_UNIX); unix.bind("three/socket"); unix.listen(1)
peer = socket.socket(socket.AF_UNIX); peer.connect("three/socket"); unix.accept()[0].close()
named = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); named.bind("\0flightrec of commands.sh")
link = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0); link.bind((0, 0)); link.getsockname()
one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); one.bind(("127.0.0.1", 0))
one.sendto(b"abc", one.getsockname()); one.recvfrom(9)
one.sendmsg([b"ab", b"cde"], [], 0, one.getsockname()); one.recvmsg(9)
one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR); one.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8)
several = select.poll(); several.register(one, select.POLLIN | select.POLLPRI)
several.register(peer, select.POLLOUT); several.poll(100); several.poll(0)
client.send(b"x"); epoll.poll(1); epoll.modify(server.fileno(), select.EPOLLOUT | select.EPOLLET)
select.select([server], [client], [], 0.5)
import fcntl, resource
held = os.open("three/held", os.O_RDWR | os.O_CREAT)
fcntl.lockf(held, fcntl.LOCK_EX, 10, 5); fcntl.lockf(held, fcntl.LOCK_UN)
os.writev(held, [b"a", b"bc", b"def"]); os.readv(held, [bytearray(2), bytearray(9)])
os.writev(held, [b"x"] * 8)
resource.setrlimit(resource.RLIMIT_CORE, (0, resource.RLIM_INFINITY))
resource.getrlimit(resource.RLIMIT_NOFILE)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGTERM, 40})
signal.sigtimedwait({signal.SIGUSR2}, 0.001); signal.sigpending()
signal.setitimer(signal.ITIMER_REAL, 100, 0.5); signal.setitimer(signal.ITIMER_REAL, 0)
os.utime("three/held", (1, 2)); os.sched_setaffinity(0, {0}); os.sched_getaffinity(0)
os.copy_file_range(held, held, 1, 0, 20); os.sendfile(held, held, 0, 1)
os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
r, w = os.pipe2(os.O_NONBLOCK)
os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)
os.rename("three/dd", "three/ee"); os.unlink("three/ee"); os.link("one/a", "three/link")
os.ftruncate(os.open("three/new", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), 10)
'
rm -r one three
