/*
 * Names of threads. Prints pid and thread, and waits for a byte on standard input. Then the thread,
 * until now named `early-thread`, calls getppid, takes the name `late-thread`, calls getppid again
 * and ends; the process calls getppid, then executes /bin/true.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int go[2], named[2];
static long tid;

static void *rename_itself(void *unused)
{
	char byte = 0;

	prctl(PR_SET_NAME, "early-thread");
	tid = syscall(SYS_gettid);
	if (write(named[1], "x", 1) != 1 || read(go[0], &byte, 1) != 1)
		_exit(1);
	syscall(SYS_getppid);
	prctl(PR_SET_NAME, "late-thread");
	syscall(SYS_getppid);
	return unused;
}

int main(void)
{
	pthread_t thread;
	char byte = 0;

	if (pipe(go) || pipe(named) || pthread_create(&thread, NULL, rename_itself, NULL) || read(named[0], &byte, 1) != 1)
		return 1;
	printf("pid=%d\nthread=%ld\n", getpid(), tid);
	fflush(stdout);
	if (read(0, &byte, 1) != 1 || write(go[1], "x", 1) != 1 || pthread_join(thread, NULL))
		return 1;
	syscall(SYS_getppid);
	execl("/bin/true", "true", "one argument", NULL);
	return 1;
}
