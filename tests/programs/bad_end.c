/*
 * Ends badly, in one of these ways. Prints `pid` before that.
 * `bad_end segv`: by SIGSEGV.
 * `bad_end worker`: the same by a thread, of which the process's first thread does not see the end.
 * `bad_end oom MIB`: takes so many MiB of memory and writes to all of it.
 * `bad_end vfork MS`: waits in vfork for a child that sleeps so long; ends well.
 * `bad_end read MS [NAME]`: takes that name, if any, and waits so long in a read from a pipe; ends
 *   well.
 * `bad_end reads MS N`: lives for 2.5 s, and then waits N times so long in such a read; ends well.
 * `bad_end errno N`: N calls of open, each of which fails with ENAMETOOLONG; ends well.
 * `bad_end fuse MS DIR`: mounts a file system of its own on DIR, which does not answer for so long,
 *   and looks at a file in it: a child waits there uninterruptibly once it has been killed. Prints
 *   `child`.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void say(const char *key, int value)
{
	printf("%s=%d\n", key, value);
	fflush(stdout);
}

static int eat(size_t mib)
{
	char *memory = malloc(mib << 20);

	if (!memory)
		return 1;
	for (size_t at = 0; at < mib << 20; at += 4096)
		((volatile char *)memory)[at] = 1;
	return 0;
}

/* Crashes once the first thread has ended: the process is a zombie by its state. */
static void *work(void *nowhere)
{
	char state = 0;

	while (state != 'Z') {
		FILE *stat = fopen("/proc/self/stat", "r");

		if (!stat || fscanf(stat, "%*d (%*[^)]) %c", &state) != 1)
			return NULL;
		fclose(stat);
		usleep(1000);
	}
	return (void *)(long)*(int *volatile)nowhere;
}

static int leave_it_to_a_worker(void)
{
	pthread_t worker;

	if (pthread_create(&worker, NULL, work, NULL))
		return 1;
	return (int)syscall(SYS_exit, 0);
}

static int fork_and_wait(long ms)
{
	pid_t child = vfork();

	if (!child) {
		usleep(ms * 1000);
		_exit(0);
	}
	return waitpid(child, NULL, 0) != child;
}

static int wait_for_pipe(long ms)
{
	int ends[2];
	char byte;

	if (pipe(ends))
		return 1;
	if (!fork()) {
		usleep(ms * 1000);
		_exit(write(ends[1], "x", 1) != 1);
	}
	return read(ends[0], &byte, 1) != 1;
}

/* No new process by then: those share what one busy process may have (share.rs of the probes). */
static int wait_again_and_again(long ms, long times)
{
	int ends[2];
	char byte;

	usleep(2500 * 1000);
	if (pipe(ends))
		return 1;
	if (!fork()) {
		for (long i = 0; i < times; i++) {
			usleep(ms * 1000);
			if (write(ends[1], "x", 1) != 1)
				_exit(1);
		}
		_exit(0);
	}
	for (long i = 0; i < times; i++)
		if (read(ends[0], &byte, 1) != 1)
			return 1;
	return 0;
}

/* Answers the first request (FUSE_INIT) of a file system, and nothing else. */
static int mute_fuse(long ms, const char *dir)
{
	char options[128];
	struct {
		struct fuse_in_header head;
		char rest[65536];
	} in;
	struct {
		struct fuse_out_header head;
		struct fuse_init_out init;
	} out;
	int device = open("/dev/fuse", O_RDWR);
	pid_t child;

	if (device < 0)
		return 3;
	snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0", device);
	if (mount("mute", dir, "fuse", MS_NOSUID | MS_NODEV, options))
		return 3;
	child = fork();
	if (!child) {
		struct stat st;
		char path[4096];

		close(device);
		snprintf(path, sizeof path, "%s/x", dir);
		_exit(stat(path, &st) == 0);
	}
	if (read(device, &in, sizeof in) < 0)
		return 1;
	memset(&out, 0, sizeof out);
	out.head.len = sizeof out;
	out.head.unique = in.head.unique;
	out.init.major = FUSE_KERNEL_VERSION;
	out.init.minor = FUSE_KERNEL_MINOR_VERSION;
	out.init.max_write = 4096;
	if (write(device, &out, sizeof out) != sizeof out)
		return 1;
	/* The request that the child waits for is taken, so that its waiting can no more be broken
	 * off by a signal. */
	if (read(device, &in, sizeof in) < 0)
		return 1;
	kill(child, SIGTERM);
	say("child", child);
	usleep(ms * 1000);
	close(device);
	waitpid(child, NULL, 0);
	return umount2(dir, MNT_DETACH) != 0;
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	long n = argc > 2 ? atol(argv[2]) : 0;
	int *volatile nowhere = NULL;

	say("pid", getpid());
	if (!strcmp(how, "segv"))
		return *nowhere;
	if (!strcmp(how, "worker"))
		return leave_it_to_a_worker();
	if (!strcmp(how, "oom"))
		return eat((size_t)n);
	if (!strcmp(how, "vfork"))
		return fork_and_wait(n);
	if (!strcmp(how, "read") && argc > 3 && prctl(PR_SET_NAME, argv[3]))
		return 1;
	if (!strcmp(how, "reads") && argc > 3)
		return wait_again_and_again(n, atol(argv[3]));
	if (!strcmp(how, "read"))
		return wait_for_pipe(n);
	if (!strcmp(how, "fuse") && argc > 3)
		return mute_fuse(n, argv[3]);
	if (!strcmp(how, "errno")) {
		char path[5000];

		memset(path, 'x', sizeof path - 1);
		path[sizeof path - 1] = 0;
		for (long i = 0; i < n; i++)
			if (open(path, O_RDONLY) >= 0)
				return 1;
		return 0;
	}
	fprintf(stderr, "usage: bad_end segv | worker | oom MIB | vfork MS | read MS [NAME] | reads MS N | errno N | fuse MS DIR\n");
	return 2;
}
