// The request's worker, "exporter", is killed by "reaper" (SIGKILL) in the middle of its work.
#include "zoo.h"
int main(void) {
    zoo_init("61-killed");
    name("exporter");
    int r[2];
    char x;
    if (pipe(r))
        die("pipe");
    pid_t w = fork();
    if (!w) {
        name("exporter");
        req_begin();
        if (write(r[1], "x", 1) != 1)
            _exit(1);
        for (;;) {
            burn(2);
            msleep(3);
        }
    }
    pid_t k = fork();
    if (!k) {
        name("reaper");
        if (read(r[0], &x, 1) != 1)
            _exit(1);
        msleep(150);
        kill(w, SIGKILL);
        msleep(30);
        _exit(0);
    }
    truth("\"culprit_pid\":%d", (int)k);
    req_begin();
    zoo_reqtid = w;
    waitpid(w, 0, 0);
    req_end();
    waitpid(k, 0, 0);
    zoo_done();
}
