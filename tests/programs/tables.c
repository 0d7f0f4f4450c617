/*
 * Threads and processes whose descriptors are shared, copied and left at random; each number is
 * looked up in /proc just before a call that names it.
 *
 * tables DIR CHECKS SEED: works in DIR, which is to be empty, until so many calls are made:
 * lseek(fd, NUMBER, 77), which fails. Then prints of each NUMBER, thread, fd and what
 * /proc/thread-self/fd/FD said ("-": it was not open), a line each.
 *
 * One task works at a time. Tasks that clone() makes share the libc's data of their creator, so
 * what they call keeps nothing there.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/openat2.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define TASKS 12
#define FIRST 3
#define FDS 40
#define STACK (64 << 10)
#define CHECKS_MAX 400000
#define WHENCE 77

struct check {
	int tid, fd;
	char link[120];
};

struct task {
	int tid, tgid;
};

/* In a file that all map, also what a task has executed. */
struct shared {
	atomic_int lock;
	/* The others. Changed by whoever has the lock. */
	struct task tasks[TASKS];
	uint64_t random;
	int first, wanted, made, files;
	struct check checks[CHECKS_MAX];
};

static struct shared *all;
static char *again[] = { "tables", "again", NULL };

static void lock(void)
{
	int free = 0;

	while (!atomic_compare_exchange_strong(&all->lock, &free, 1)) {
		syscall(SYS_futex, &all->lock, FUTEX_WAIT, 1, NULL);
		free = 0;
	}
}

static void unlock(void)
{
	atomic_store(&all->lock, 0);
	syscall(SYS_futex, &all->lock, FUTEX_WAKE, 1);
}

static unsigned below(unsigned n)
{
	all->random = all->random * 6364136223846793005u + 1442695040888963407u;
	return (all->random >> 33) % n;
}

static int any_fd(void)
{
	return FIRST + below(FDS - FIRST);
}

static int is_directory(int fd)
{
	struct stat st;

	return !fstat(fd, &st) && S_ISDIR(st.st_mode);
}

static void check(int fd)
{
	struct check *of = &all->checks[all->made];
	char name[64];
	ssize_t n;

	if (all->made >= all->wanted)
		return;
	snprintf(name, sizeof(name), "/proc/thread-self/fd/%d", fd);
	n = readlink(name, of->link, sizeof(of->link) - 1);
	if (n < 0)
		of->link[n = 0] = '-', n = 1;
	of->link[n] = 0;
	of->tid = syscall(SYS_gettid);
	of->fd = fd;
	syscall(SYS_lseek, fd, (long)all->made++, WHENCE);
}

/* A number below FDS stays; others would only pile up. */
static int keep(int fd)
{
	if (fd >= FDS) {
		syscall(SYS_close, fd);
		return -1;
	}
	return fd;
}

static void made_two(const int *ends)
{
	keep(ends[0]);
	keep(ends[1]);
}

static int cloexec(int flag)
{
	return below(3) ? 0 : flag;
}

static void open_something(void)
{
	struct open_how how = { .flags = O_RDWR | O_CREAT, .mode = 0600, .resolve = RESOLVE_IN_ROOT };
	char cwd[96], path[192], file[32];
	int dir = any_fd(), flags = O_RDWR | O_CREAT | cloexec(O_CLOEXEC);

	if (!getcwd(cwd, sizeof(cwd)))
		_exit(3);
	snprintf(file, sizeof(file), "f%d", all->files++);
	snprintf(path, sizeof(path), "%s/%s", cwd, file);
	switch (below(7)) {
	case 0:
		keep(syscall(SYS_openat, AT_FDCWD, path, flags, 0600));
		break;
	case 1:
		/* Relative to the working directory. */
		keep(syscall(SYS_openat, AT_FDCWD, file, flags, 0600));
		break;
	case 2:
		snprintf(path, sizeof(path), "%s/d%d", cwd, below(4));
		syscall(SYS_mkdirat, AT_FDCWD, path, 0700);
		keep(syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0));
		break;
	case 3:
		if (is_directory(dir))
			keep(syscall(SYS_openat, dir, file, flags, 0600));
		break;
	case 4:
		snprintf(path, sizeof(path), "/%s", file);
		if (is_directory(dir))
			keep(syscall(SYS_openat2, dir, path, &how, sizeof(how)));
		break;
	case 5:
		keep(syscall(SYS_openat, AT_FDCWD, cwd, O_RDWR | O_TMPFILE | cloexec(O_CLOEXEC), 0600));
		break;
	default:
		how.resolve = 0;
		keep(syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how)));
	}
}

static void make_something(void)
{
	int ends[2];
	sigset_t none;

	switch (below(7)) {
	case 0:
		if (!syscall(SYS_pipe2, ends, cloexec(O_CLOEXEC)))
			made_two(ends);
		break;
	case 1:
		if (!syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, ends))
			made_two(ends);
		break;
	case 2:
		keep(syscall(SYS_eventfd2, 0, cloexec(EFD_CLOEXEC)));
		break;
	case 3:
		keep(syscall(SYS_memfd_create, "of-tables", cloexec(MFD_CLOEXEC)));
		break;
	case 4:
		keep(syscall(SYS_epoll_create1, cloexec(EPOLL_CLOEXEC)));
		break;
	case 5:
		keep(syscall(SYS_timerfd_create, CLOCK_MONOTONIC, cloexec(TFD_CLOEXEC)));
		break;
	default:
		sigemptyset(&none);
		keep(syscall(SYS_signalfd4, -1, &none, 8, 0));
	}
}

static void copy_something(void)
{
	int from = any_fd(), to = any_fd();

	switch (below(5)) {
	case 0:
		keep(syscall(SYS_dup, from));
		break;
	case 1:
		syscall(SYS_dup3, from, to, cloexec(O_CLOEXEC));
		break;
	case 2:
		keep(syscall(SYS_fcntl, from, F_DUPFD, FIRST));
		break;
	case 3:
		keep(syscall(SYS_fcntl, from, F_DUPFD_CLOEXEC, FIRST));
		break;
	default:
		syscall(SYS_fcntl, from, F_SETFD, (long)below(2));
	}
}

/* By a message to itself: which descriptor it has become no argument tells. */
static void pass_something(void)
{
	char byte = 0, room[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec data = { &byte, 1 };
	struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1, .msg_control = room,
				  .msg_controllen = sizeof(room) };
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);
	int ends[2], fd = any_fd();

	if (fcntl(fd, F_GETFD) < 0 || syscall(SYS_socketpair, AF_UNIX, SOCK_DGRAM, 0, ends))
		return;
	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(head), &fd, sizeof(int));
	if (syscall(SYS_sendmsg, ends[0], &message, 0) == 1) {
		message.msg_controllen = sizeof(room);
		if (syscall(SYS_recvmsg, ends[1], &message, 0) == 1) {
			memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
			keep(fd);
		}
	}
	syscall(SYS_close, ends[0]);
	syscall(SYS_close, ends[1]);
}

/* Of another process, or its own: a number that means somebody else's table. */
static void take_something(void)
{
	int of = all->tasks[below(TASKS)].tgid, pidfd;

	if (of && (pidfd = syscall(SYS_pidfd_open, of, 0)) >= 0) {
		keep(syscall(SYS_pidfd_getfd, pidfd, any_fd(), 0));
		syscall(SYS_close, pidfd);
	}
}

/* The place of a task; of thread 0, a free one. */
static struct task *task(int tid)
{
	for (int n = 0; n < TASKS; n++)
		if (all->tasks[n].tid == tid)
			return &all->tasks[n];
	return NULL;
}

static int work(void *unused);

/* A task of its own: a thread or a process, with these descriptors or a copy. */
static void start(void)
{
	int thread = CLONE_VM | CLONE_FS | CLONE_SIGHAND | CLONE_THREAD;
	int flags[] = { thread | CLONE_FILES, thread, CLONE_VM | CLONE_FILES | SIGCHLD, CLONE_VM | SIGCHLD,
			CLONE_FS | CLONE_FILES | SIGCHLD, SIGCHLD };
	int with = flags[below(6)], tid;
	struct task *new = task(0);
	char *stack;

	if (!new)
		return;
	stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (stack == MAP_FAILED)
		return;
	tid = clone(work, stack + STACK, with, NULL);
	if (tid > 0) {
		new->tid = tid;
		new->tgid = with & CLONE_THREAD ? syscall(SYS_getpid) : tid;
	} else {
		munmap(stack, STACK);
	}
}

/* While its maker sleeps in vfork. */
static int work_in_vfork(void *unused)
{
	(void)unused;
	for (int n = 0; n < 3; n++) {
		if (below(2))
			open_something();
		else
			syscall(SYS_close, any_fd());
		check(any_fd());
	}
	syscall(SYS_exit_group, 0);
	return 0;
}

/* A child that has this memory until it ends, and these descriptors or a copy. */
static void start_and_wait(void)
{
	static char stack[STACK] __attribute__((aligned(16)));

	clone(work_in_vfork, stack + STACK, CLONE_VM | CLONE_VFORK | SIGCHLD | (below(2) ? CLONE_FILES : 0),
	      NULL);
}

static int leave(void)
{
	task(syscall(SYS_gettid))->tid = 0;
	unlock();
	syscall(SYS_exit, 0);
	return 0;
}

/* All other threads of the process end, unless it fails. It keeps the lock, so that none of them has it. */
static void execute(void)
{
	int tid = syscall(SYS_gettid), tgid = syscall(SYS_getpid);
	struct task before[TASKS];

	memcpy(before, all->tasks, sizeof(before));
	for (int n = 0; n < TASKS; n++)
		if (all->tasks[n].tgid == tgid && all->tasks[n].tid != tid)
			all->tasks[n].tid = 0;
	task(tid)->tid = tgid;
	syscall(SYS_execve, "/proc/thread-self/exe", again, NULL);
	memcpy(all->tasks, before, sizeof(before));
}

static void step(int is_first)
{
	unsigned what = below(100);

	if (what < 30)
		open_something();
	else if (what < 45)
		make_something();
	else if (what < 60)
		copy_something();
	else if (what < 80)
		syscall(SYS_close, any_fd());
	else if (what < 84)
		pass_something();
	else if (what < 87)
		syscall(SYS_unshare, CLONE_FILES);
	else if (what < 89)
		syscall(SYS_close_range, any_fd(), FDS, 0);
	else if (what < 91)
		syscall(SYS_close_range, any_fd(), FDS, CLOSE_RANGE_UNSHARE);
	else if (what < 92)
		/* This fails, and changes nothing. */
		syscall(SYS_close_range, FDS, any_fd(), CLOSE_RANGE_UNSHARE);
	else if (what < 93)
		take_something();
	else if (what < 94)
		start_and_wait();
	else if (what < 96)
		start();
	else if (!is_first && what < 97)
		leave();
	else if (syscall(SYS_getpid) != all->first && what < 98)
		execute();
}

static void round_of(int is_first)
{
	lock();
	step(is_first);
	for (int n = 0; n < 4; n++)
		check(any_fd());
	while (waitpid(-1, NULL, WNOHANG | __WALL) > 0) {
	}
}

static int is_done(void)
{
	return all->made >= all->wanted;
}

static int work(void *unused)
{
	(void)unused;
	while (!is_done()) {
		round_of(0);
		unlock();
		sched_yield();
	}
	lock();
	return leave();
}

static struct shared *map(int create)
{
	int fd = open("shared", O_RDWR | (create ? O_CREAT | O_EXCL : 0), 0600);
	void *at;

	if (fd < 0 || ftruncate(fd, sizeof(struct shared)))
		return NULL;
	at = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return at == MAP_FAILED ? NULL : at;
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "again")) {
		all = map(0);
		if (!all)
			return 5;
		unlock();
		return work(NULL);
	}
	if (argc != 4 || chdir(argv[1]) || !(all = map(1)))
		return 2;
	all->wanted = atoi(argv[2]) < CHECKS_MAX ? atoi(argv[2]) : CHECKS_MAX;
	all->random = strtoull(argv[3], NULL, 10);
	all->first = getpid();
	while (!is_done()) {
		round_of(1);
		unlock();
		sched_yield();
	}
	for (int left = TASKS; left;) {
		while (waitpid(-1, NULL, WNOHANG | __WALL) > 0) {
		}
		usleep(10000);
		left = 0;
		for (int n = 0; n < TASKS; n++)
			left += all->tasks[n].tid != 0;
	}
	for (int n = 0; n < all->made; n++)
		printf("%d %d %d %s\n", n, all->checks[n].tid, all->checks[n].fd, all->checks[n].link);
	return 0;
}
