/*
 * Waits of many kinds, each by a thread of its own that is named for it, of 20 ms and more where
 * the wait is not the disk's. Arguments: a directory; how often.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FILE_BYTES (16L << 20)

static const char *dir;
static int rounds, word;

static void nap(long ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&t, NULL);
}

static void check(int ok, const char *what)
{
	if (!ok) {
		perror(what);
		exit(1);
	}
}

static int file(const char *name)
{
	char path[4096];
	int fd;

	snprintf(path, sizeof path, "%s/%s", dir, name);
	fd = open(path, O_RDWR | O_CREAT, 0600);
	check(fd >= 0, path);
	return fd;
}

static void waits_nanosleep(int i)
{
	(void)i;
	nap(20);
}

/* What the threads named for a wait wait for; written or sent 20 ms after that. */
static int pipe_ends[2], epoll_ends[2], sockets[2];

static void waits_pipe(int i)
{
	char byte;

	(void)i;
	check(read(pipe_ends[0], &byte, 1) == 1, "read");
}

static void waits_futex(int i)
{
	syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, i, NULL);
}

static void waits_epoll(int i)
{
	struct epoll_event event = { .events = EPOLLIN };
	int set = epoll_create1(0);
	char byte;

	(void)i;
	check(epoll_ctl(set, EPOLL_CTL_ADD, epoll_ends[0], &event) == 0, "epoll_ctl");
	check(epoll_wait(set, &event, 1, -1) == 1, "epoll_wait");
	check(read(epoll_ends[0], &byte, 1) == 1, "read");
	close(set);
}

static void waits_tcp(int i)
{
	char byte;

	(void)i;
	check(recv(sockets[0], &byte, 1, 0) == 1, "recv");
}

static void waits_flock(int i)
{
	int fd = file("lock");

	(void)i;
	check(flock(fd, LOCK_EX) == 0, "flock");
	close(fd);
}

static void waits_fsync(int i)
{
	static char bytes[1 << 20];
	int fd = file("synced");

	memset(bytes, i, sizeof bytes);
	check(write(fd, bytes, sizeof bytes) == sizeof bytes, "write");
	check(fsync(fd) == 0, "fsync");
	close(fd);
}

static void waits_vfork(int i)
{
	pid_t child = vfork();

	(void)i;
	if (child == 0) {
		/* The parent's wait is in vfork for as long. */
		syscall(SYS_nanosleep, &(struct timespec){ 0, 20000000 }, NULL);
		_exit(0);
	}
	check(waitpid(child, NULL, 0) == child, "waitpid");
}

/* Reads through a mapping what is on the disk only. */
static void waits_page(int i)
{
	int fd = file("mapped");
	volatile char *map;
	long at;

	(void)i;
	check(fsync(fd) == 0 && posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0, "posix_fadvise");
	map = mmap(NULL, FILE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	check(map != MAP_FAILED, "mmap");
	madvise((void *)map, FILE_BYTES, MADV_RANDOM);
	for (at = 0; at < FILE_BYTES; at += 1 << 20)
		(void)map[at];
	munmap((void *)map, FILE_BYTES);
	close(fd);
}

struct kind {
	const char *name;
	void (*wait)(int);
};

static const struct kind kinds[] = {
	{ "nanosleep", waits_nanosleep }, { "pipe", waits_pipe },   { "futex", waits_futex },
	{ "epoll", waits_epoll },	  { "tcp", waits_tcp },	    { "flock", waits_flock },
	{ "fsync", waits_fsync },	  { "vfork", waits_vfork }, { "page", waits_page },
};

static void *run(void *arg)
{
	const struct kind *kind = arg;
	int i;

	prctl(PR_SET_NAME, kind->name);
	for (i = 0; i < rounds; i++)
		kind->wait(i);
	return NULL;
}

static void connect_sockets(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t length = sizeof address;
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	check(bind(listener, (void *)&address, length) == 0 && listen(listener, 1) == 0, "listen");
	check(getsockname(listener, (void *)&address, &length) == 0, "getsockname");
	sockets[1] = socket(AF_INET, SOCK_STREAM, 0);
	check(connect(sockets[1], (void *)&address, length) == 0, "connect");
	sockets[0] = accept(listener, NULL, NULL);
	check(sockets[0] >= 0, "accept");
	close(listener);
}

int main(int argc, char **argv)
{
	enum { COUNT = sizeof kinds / sizeof *kinds };
	static char bytes[1 << 20];
	pthread_t threads[COUNT];
	long i, fd, held;

	if (argc != 3)
		return 2;
	dir = argv[1];
	rounds = atoi(argv[2]);
	check(pipe(pipe_ends) == 0 && pipe(epoll_ends) == 0, "pipe");
	connect_sockets();
	fd = file("mapped");
	memset(bytes, 'x', sizeof bytes);
	for (i = 0; i < FILE_BYTES; i += sizeof bytes)
		check(write(fd, bytes, sizeof bytes) == sizeof bytes, "write");
	close(fd);
	held = file("lock");
	check(flock(held, LOCK_EX) == 0, "flock");
	printf("pid=%d\n", getpid());
	for (i = 0; i < COUNT; i++)
		check(pthread_create(&threads[i], NULL, run, (void *)&kinds[i]) == 0, "pthread_create");
	for (i = 0; i < rounds; i++) {
		nap(20);
		check(write(pipe_ends[1], "x", 1) == 1 && write(epoll_ends[1], "x", 1) == 1, "write");
		check(send(sockets[1], "x", 1, 0) == 1, "send");
		__atomic_store_n(&word, i + 1, __ATOMIC_SEQ_CST);
		syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1);
		flock(held, LOCK_UN);
		nap(1);
		flock(held, LOCK_EX | LOCK_NB);
	}
	flock(held, LOCK_UN);
	for (i = 0; i < COUNT; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
