/*
 * Something without end, on one CPU: `storm KIND CPU`, until it is killed or its parent has gone;
 * `storm KIND CPU COUNT`: so often (but for wakeups).
 * KIND: calls (getppid), opens (of a missing file), renames (of the thread), forks (of children
 * that end at once), execs (of /bin/true), wakeups (two processes that pass a byte to and fro),
 * threads (that end at once).
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pin.h"

extern char **environ;

static void *nothing(void *unused)
{
	return unused;
}

static void once(const char *kind, unsigned long i)
{
	char name[16];

	if (!strcmp(kind, "calls")) {
		syscall(SYS_getppid);
	} else if (!strcmp(kind, "opens")) {
		syscall(SYS_openat, AT_FDCWD, "/nowhere/at/all/that/there/is/anything", O_RDONLY);
	} else if (!strcmp(kind, "renames")) {
		snprintf(name, sizeof(name), "storm-%lu", i);
		prctl(PR_SET_NAME, name);
	} else if (!strcmp(kind, "forks")) {
		pid_t child = fork();

		if (!child)
			_exit(0);
		waitpid(child, NULL, 0);
	} else if (!strcmp(kind, "execs")) {
		char *argv[] = { "true", "of", "a", "storm", NULL };
		pid_t child;

		if (!posix_spawn(&child, "/bin/true", NULL, NULL, argv, environ))
			waitpid(child, NULL, 0);
	} else if (!strcmp(kind, "threads")) {
		pthread_t thread;

		if (!pthread_create(&thread, NULL, nothing, NULL))
			pthread_join(thread, NULL);
	} else {
		exit(2);
	}
}

/* The other player sends back what it gets. */
static int wakeups(void)
{
	int to[2], from[2];
	char byte = 0;

	if (pipe(to) || pipe(from))
		return 1;
	if (!fork()) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (read(to[0], &byte, 1) == 1 && write(from[1], &byte, 1) == 1)
			;
		_exit(0);
	}
	while (write(to[1], &byte, 1) == 1 && read(from[0], &byte, 1) == 1)
		;
	return 1;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	pin(atoi(argv[2]));
	printf("pid=%d\n", getpid());
	fflush(stdout);
	if (!strcmp(argv[1], "wakeups"))
		return wakeups();
	unsigned long count = argc > 3 ? strtoul(argv[3], NULL, 10) : 0;
	for (unsigned long i = 0; !count || i < count; i++)
		once(argv[1], i);
	return 0;
}
