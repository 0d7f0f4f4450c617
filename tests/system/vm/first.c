// first PROGRAM [ARGUMENT...]: runs it before all others, with the highest real-time priority: chrt
// -f 99, which not every busybox has.
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv) {
    struct sched_param priority = { .sched_priority = 99 };

    if (argc < 2) {
        fprintf(stderr, "usage: first PROGRAM [ARGUMENT...]\n");
        return 2;
    }
    if (sched_setscheduler(0, SCHED_FIFO, &priority)) {
        perror("sched_setscheduler");
        return 1;
    }
    execvp(argv[1], argv + 1);
    perror(argv[1]);
    return 1;
}
