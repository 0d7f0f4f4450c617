/*
 * Threads that take turns on one CPU, asleep within their calls meanwhile; then threads that come
 * and go, and processes: the kernel gives the next one the stack of the last. Each says who it is
 * by calls of a kind that nobody else makes, and so does a program that a thread executed, under
 * its new id.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MARK 0x7717
#define THREADS 1500
#define CHILDREN 300
#define TURNS 500

static int there[2], back[2];

static void *say(void *unused)
{
	long tid = syscall(SYS_gettid);

	syscall(SYS_getpriority, MARK, tid);
	sched_yield();
	syscall(SYS_getpriority, MARK, tid);
	return unused;
}

static void *echo(void *unused)
{
	char byte;

	while (read(there[0], &byte, 1) == 1) {
		say(NULL);
		if (write(back[1], &byte, 1) != 1)
			_exit(1);
	}
	return unused;
}

static int take_turns(void)
{
	pthread_t thread;
	cpu_set_t all, one;
	char byte = 0;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	if (sched_getaffinity(0, sizeof(all), &all) || sched_setaffinity(0, sizeof(one), &one) || pipe(there) ||
	    pipe(back) || pthread_create(&thread, NULL, echo, NULL))
		return 1;
	for (int i = 0; i < TURNS; i++) {
		if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
			return 1;
		say(NULL);
	}
	close(there[1]);
	return pthread_join(thread, NULL) || sched_setaffinity(0, sizeof(all), &all);
}

static void *execute(void *unused)
{
	char *const argv[] = { "churn", "end", NULL };
	char *const envp[] = { NULL };

	say(NULL);
	execve("/proc/self/exe", argv, envp);
	perror("execve");
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	say(NULL);
	if (argc > 1 && !strcmp(argv[1], "end"))
		return 0;
	if (take_turns())
		return 1;
	for (int i = 0; i < THREADS; i++) {
		if (pthread_create(&thread, NULL, say, NULL))
			return 1;
		pthread_join(thread, NULL);
	}
	for (int i = 0; i < CHILDREN; i++) {
		pid_t child = fork();

		if (child < 0)
			return 1;
		if (child == 0) {
			say(NULL);
			_exit(0);
		}
		waitpid(child, NULL, 0);
	}
	printf("calls=%d\n", 2 * (1 + 2 * TURNS + THREADS + CHILDREN + 2));
	fflush(stdout);
	if (pthread_create(&thread, NULL, execute, NULL) == 0)
		pthread_join(thread, NULL);
	return 1; /* reached only if execve failed */
}
