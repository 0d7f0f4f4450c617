/*
 * A read from a pipe is interrupted by a signal and restarted by the kernel (SA_RESTART): its
 * first exit returns -ERESTARTSYS, its second 1. The child writes only after the signal was
 * handled, so the order is certain.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
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

int main(void)
{
	struct sigaction action;
	struct itimerval in_100_ms = { { 0, 0 }, { 0, 100000 } };
	char byte = 0;

	memset(&action, 0, sizeof(action));
	action.sa_handler = on_alarm;
	action.sa_flags = SA_RESTART;
	if (pipe(data) || pipe(handled))
		return 1;
	pid_t child = fork();

	if (child == 0) {
		if (read(handled[0], &byte, 1) != 1 || write(data[1], "x", 1) != 1)
			_exit(1);
		_exit(0);
	}
	if (child < 0 || sigaction(SIGALRM, &action, NULL) || setitimer(ITIMER_REAL, &in_100_ms, NULL))
		return 1;
	ssize_t got = read(data[0], &byte, 1);

	printf("pid=%d\nchild=%d\nfd=%d\nread=%zd\nalarms=%d\n", getpid(), child, data[0], got, (int)alarms);
	return waitpid(child, NULL, 0) != child || got != 1 || alarms != 1;
}
