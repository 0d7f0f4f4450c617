// The request waits for a mutex that "sweeper" (nice 19) holds; "render" (SCHED_FIFO 30) has the
// CPU to which sweeper is bound.
#include "zoo.h"
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static volatile int held;
static void *sweeper(void *a) {
    name("sweeper");
    pin(lastcpu());
    setpriority(PRIO_PROCESS, tid(), 19);
    pthread_mutex_lock(&m);
    held = 1;
    burn(30);
    pthread_mutex_unlock(&m);
    return 0;
}
int main(void) {
    zoo_init("40-inversion");
    name("frontend");
    pthread_t t;
    pin(0);
    pthread_create(&t, 0, sweeper, 0);
    while (!held)
        msleep(0.2);
    pid_t k = fork();
    if (!k) {
        name("render");
        pin(lastcpu());
        struct sched_param p = {30};
        if (sched_setscheduler(0, SCHED_FIFO, &p))
            _exit(1);
        spin(500);
        _exit(0);
    }
    truth("\"holder\":\"sweeper\",\"culprit_pid\":%d", (int)k);
    msleep(3);
    req_begin();
    pthread_mutex_lock(&m);
    pthread_mutex_unlock(&m);
    req_end();
    pthread_join(t, 0);
    waitpid(k, 0, 0);
    zoo_done();
}
