/*
 * Threads that come and go, a process's and processes of their own: the kernel gives the next one the stack of the last. Each
 * says who it is by calls of a kind that nobody else makes, and so does a program that a thread executed, under its new id.
 */
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

static void *say(void *unused)
{
	long tid = syscall(SYS_gettid);

	syscall(SYS_getpriority, MARK, tid);
	sched_yield();
	syscall(SYS_getpriority, MARK, tid);
	return unused;
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
	printf("calls=%d\n", 2 * (1 + THREADS + CHILDREN + 2));
	fflush(stdout);
	if (pthread_create(&thread, NULL, execute, NULL) == 0)
		pthread_join(thread, NULL);
	return 1; /* reached only if execve failed */
}
