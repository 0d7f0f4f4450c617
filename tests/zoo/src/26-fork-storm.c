// The request computes 40 ms on one CPU, where "healthcheck" forks short processes all the time.
#include "zoo.h"
int main(void) {
    zoo_init("26-fork-storm");
    name("quote");
    pid_t k[6];
    pin(lastcpu());
    for (int i = 0; i < 6; i++)
        if (!(k[i] = fork())) {
            name("healthcheck");
            double e = now_ms() + 900;
            while (now_ms() < e) {
                pid_t c = fork();
                if (!c) {
                    name("probe");
                    burn(1);
                    _exit(0);
                }
                waitpid(c, 0, 0);
            }
            _exit(0);
        }
    truth("\"culprit_pid\":%d", (int)k[0]);
    msleep(50);
    req_begin();
    for (int i = 0; i < 20; i++) {
        burn(2);
        msleep(0.5);
    }
    req_end();
    for (int i = 0; i < 6; i++) {
        kill(k[i], SIGKILL);
        waitpid(k[i], 0, 0);
    }
    zoo_done();
}
