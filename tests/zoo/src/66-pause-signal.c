// The request waits for a signal (sigwaitinfo) that "leader" sends after it has slept 400 ms.
#include "zoo.h"
int main(void) {
    zoo_init("66-pause-signal");
    name("follower");
    sigset_t s;
    sigemptyset(&s);
    sigaddset(&s, SIGUSR1);
    sigprocmask(SIG_BLOCK, &s, 0);
    pid_t p = getpid(), k = fork();
    if (!k) {
        name("leader");
        msleep(400);
        kill(p, SIGUSR1);
        msleep(30);
        _exit(0);
    }
    truth("\"culprit_pid\":%d", (int)k);
    req_begin();
    sigwaitinfo(&s, 0);
    req_end();
    waitpid(k, 0, 0);
    zoo_done();
}
