/*
 * A read from a pipe is interrupted by a signal and restarted by the kernel (SA_RESTART): its
 * first exit returns -ERESTARTSYS, its second 1. The child sends the signal once the parent sleeps,
 * and writes only after the signal was handled, so the order is certain.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int data[2], handled[2];
static volatile sig_atomic_t alarms;

static void on_alarm(int signal)
{
	char byte = (char)signal;

	alarms++;
	if (write(handled[1], &byte, 1) != 1)
		_exit(1);
}

/* Whether a process waits in a call (proc_pid_stat(5)). */
static int sleeps(int pid)
{
	char path[64], state = 0;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	FILE *stat = fopen(path, "r");
	int found = stat && fscanf(stat, "%*d (%*[^)]) %c", &state) == 1;

	if (stat)
		fclose(stat);
	return found && state == 'S';
}

int main(void)
{
	struct sigaction action;
	char byte = 0;

	memset(&action, 0, sizeof(action));
	action.sa_handler = on_alarm;
	action.sa_flags = SA_RESTART;
	if (pipe(data) || pipe(handled) || sigaction(SIGALRM, &action, NULL))
		return 1;
	pid_t child = fork();

	if (child == 0) {
		while (!sleeps(getppid()))
			;
		if (kill(getppid(), SIGALRM) || read(handled[0], &byte, 1) != 1 || write(data[1], "x", 1) != 1)
			_exit(1);
		_exit(0);
	}
	if (child < 0)
		return 1;
	ssize_t got = read(data[0], &byte, 1);

	printf("pid=%d\nchild=%d\nfd=%d\nread=%zd\nalarms=%d\n", getpid(), child, data[0], got, (int)alarms);
	return waitpid(child, NULL, 0) != child || got != 1 || alarms != 1;
}
