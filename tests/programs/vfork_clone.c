/*
 * New threads and processes return from a call that they never entered: a vfork child, a fork
 * child and a thread.
 */
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

static long thread_tid;

static void *run(void *unused)
{
	thread_tid = syscall(SYS_gettid);
	return unused;
}

static int code_of(pid_t child)
{
	int status = 0;

	return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main(void)
{
	pthread_t thread;
	pid_t vforked = vfork();

	if (vforked == 0)
		_exit(3);
	int vfork_code = code_of(vforked);
	pid_t forked = fork();

	if (forked == 0)
		_exit(4);
	int fork_code = code_of(forked);

	if (pthread_create(&thread, NULL, run, NULL) || pthread_join(thread, NULL))
		return 1;
	printf("pid=%d\nvfork=%d\nvfork_code=%d\nfork=%d\nfork_code=%d\nthread=%ld\n", getpid(), vforked, vfork_code,
	       forked, fork_code, thread_tid);
	return vfork_code != 3 || fork_code != 4 || !thread_tid;
}
