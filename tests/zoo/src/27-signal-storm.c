// The request computes, and "monitor" sends its process SIGUSR1 all the time; each signal costs a
// handler that logs for a while.
#include "zoo.h"
__attribute__((noinline)) void log_backtrace(void) { burn(0.3); }
static void on(int s) { log_backtrace(); }
int main(void) {
    zoo_init("27-signal-storm");
    name("matcher");
    signal(SIGUSR1, on);
    pid_t p = getpid(), k = fork();
    if (!k) {
        name("monitor");
        double e = now_ms() + 700;
        while (now_ms() < e) {
            if (kill(p, SIGUSR1))
                break;
            msleep(0.3);
        }
        _exit(0);
    }
    truth("\"culprit_pid\":%d", (int)k);
    msleep(20);
    req_begin();
    burn(150);
    req_end();
    kill(k, SIGKILL);
    waitpid(k, 0, 0);
    zoo_done();
}
