/*
 * A thread that is not its process's leader executes a program: it takes the leader's id. The
 * program executed is this one again, with an argument that makes it end.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static void *run(void *unused)
{
	char *const argv[] = { "exec_thread", "end", NULL };
	char *const envp[] = { NULL };

	printf("pid=%d\nthread=%ld\n", getpid(), syscall(SYS_gettid));
	fflush(stdout);
	execve("/proc/self/exe", argv, envp);
	perror("execve");
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc > 1 && !strcmp(argv[1], "end")) {
		printf("end_pid=%d\nend_thread=%ld\n", getpid(), syscall(SYS_gettid));
		return 0;
	}
	if (pthread_create(&thread, NULL, run, NULL) == 0)
		pthread_join(thread, NULL);
	return 1; /* reached only if execve failed */
}
