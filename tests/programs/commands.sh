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
os.rename("three/dd", "three/ee"); os.unlink("three/ee"); os.link("one/a", "three/link")
os.ftruncate(os.open("three/new", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), 10)
'
rm -r one three
